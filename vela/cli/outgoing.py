"""Where the messages of `vela produce` come from: arguments, lines, JSON lines, whole files."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vela.cli.errors import CliError, Exit
from vela.cli.pipes import lines_of, read_pieces

__all__ = ["Outgoing", "Source", "messages_of"]

# What a JSON line may hold; the others are what `vela consume --json` prints beside them.
_TAKEN: Final = frozenset(
    ("payload", "payload_base64", "key", "ordering_key", "properties", "event_ms", "deliver_at_ms")
)
_PASSED_OVER: Final = frozenset(
    ("id", "topic", "publish_ms", "producer", "sequence_id", "redelivery_count", "size_bytes")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message; what is None is decided by the options."""

    payload: bytes
    read_bytes: int  # of the source that it took, for the progress bar
    key: str | None = None
    ordering_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_ms: int | None = None
    deliver_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What to read, and how to cut it."""

    arguments: tuple[str, ...]  # messages of the command line
    files: tuple[str, ...]  # "-" = standard input
    how: str  # lines, json or whole

    @property
    def size_bytes(self) -> int | None:
        """Of all files together, None where one has no size."""
        if not self.files:
            return None
        try:
            found = [os.stat(name) for name in self.files if name != "-"]
        except OSError:
            return None
        is_known = len(found) == len(self.files)
        return sum(each.st_size for each in found) if is_known else None


async def messages_of(source: Source) -> AsyncIterator[Outgoing]:
    """One by one, in order. Raises CliError for a file that cannot be read and a line that is no message."""
    for text in source.arguments:
        data = text.encode(errors="surrogateescape")
        yield (
            _from_json(data, "the argument")
            if source.how == "json"
            else Outgoing(payload=data, read_bytes=len(data))
        )
    for name in source.files:
        async for message in _of_file(name, source.how):
            yield message


async def _of_file(name: str, how: str) -> AsyncIterator[Outgoing]:
    shown = "standard input" if name == "-" else name
    try:
        descriptor = 0 if name == "-" else os.open(Path(name), os.O_RDONLY)
    except OSError as error:
        raise CliError(f"{shown} cannot be read: {error.strerror}", Exit.USAGE) from error
    try:
        if how == "whole":
            data = b"".join([piece async for piece in read_pieces(descriptor)])
            yield Outgoing(payload=data, read_bytes=len(data))
            return
        number = 0
        async for line in lines_of(descriptor):
            number += 1
            if how == "lines":
                yield Outgoing(payload=line, read_bytes=len(line) + 1)
            elif line.strip():
                yield _from_json(line, f"{shown}, line {number},")
    except IsADirectoryError as error:
        raise CliError(f"{shown} is a folder: name files", Exit.USAGE) from error
    finally:
        if descriptor:
            os.close(descriptor)


def _from_json(line: bytes, where: str) -> Outgoing:
    """An object with `payload` (text, or any JSON, which is sent as JSON) or `payload_base64`. Raises CliError."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{where} is not JSON: {error}", Exit.USAGE, code="NotJson") from error
    if not isinstance(given, dict):
        raise CliError(f"{where} is not a JSON object; it takes {_names()}", Exit.USAGE, code="NotJson")
    unknown = given.keys() - _TAKEN - _PASSED_OVER
    if unknown:
        raise CliError(f"{where} has {min(unknown)!r}; it takes {_names()}", Exit.USAGE, code="UnknownMember")
    properties = given.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise CliError(f"{where} has properties that are no object of texts", Exit.USAGE, code="BadMember")
    return Outgoing(
        payload=_payload(given, where),
        read_bytes=len(line) + 1,
        key=_member(given, "key", str, where),
        ordering_key=_member(given, "ordering_key", str, where),
        properties=properties,
        event_ms=_member(given, "event_ms", int, where),
        deliver_at_ms=_member(given, "deliver_at_ms", int, where),
    )


def _payload(given: dict[str, Any], where: str) -> bytes:
    payload, encoded = given.get("payload"), given.get("payload_base64")
    if (payload is None) is (encoded is None):
        raise CliError(f"{where} needs payload or payload_base64, and not both", Exit.USAGE, code="BadMember")
    if payload is not None:
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        return text.encode(errors="surrogatepass")
    try:
        return base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CliError(
            f"{where} has a payload_base64 that is not base64", Exit.USAGE, code="BadMember"
        ) from error


def _member(given: dict[str, Any], name: str, kind: type, where: str) -> Any:
    value = given.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    word = "text" if kind is str else "a whole number"
    raise CliError(f"{where} has a {name} that is not {word}", Exit.USAGE, code="BadMember")


def _names() -> str:
    return ", ".join(sorted(_TAKEN))


def files_of(files: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """Standard input where nothing else is named."""
    return tuple(files) if files or arguments else ("-",)
