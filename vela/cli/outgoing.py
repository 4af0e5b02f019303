"""The sources of messages for `vela produce`: arguments, lines, JSON lines, whole files."""

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
from vela.cli.pipes import TooMuch, lines_of, read_whole

__all__ = ["Outgoing", "Source", "messages_of"]

# members of a JSON line that become part of the message
_TAKEN: Final = frozenset(
    ("payload", "payload_base64", "key", "ordering_key", "properties", "event_ms", "deliver_at_ms")
)
MOST_BYTES: Final = 512 * 1024 * 1024  # limit for one message: a consumer decompresses no larger one
_MOST_MS: Final = 2**63 - 1  # the largest time on the wire
# members that `vela consume --json` also prints, and that this module ignores
_PASSED_OVER: Final = frozenset(
    ("id", "topic", "publish_ms", "producer", "sequence_id", "redelivery_count", "size_bytes")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message. An option of the command replaces a value that is None, empty or 0."""

    payload: bytes
    read_bytes: int  # size in the source, for the progress bar
    key: str | None = None
    ordering_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_ms: int | None = None
    deliver_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The input to read, and how to cut it into messages."""

    arguments: tuple[str, ...]  # messages on the command line
    files: tuple[str, ...]  # "-" = standard input
    how: str  # lines, json or whole

    @property
    def size_bytes(self) -> int | None:
        """Return the size of all files together, None if one has no size."""
        if not self.files:
            return None
        try:
            found = [os.stat(name) for name in self.files if name != "-"]
        except OSError:
            return None
        is_known = len(found) == len(self.files)
        return sum(each.st_size for each in found) if is_known else None


async def messages_of(source: Source) -> AsyncIterator[Outgoing]:
    """Yield the messages in order. Raises CliError if a file cannot be read or a line is not a message."""
    for number, text in enumerate(source.arguments, 1):
        data = text.encode(errors="surrogateescape")
        yield (
            _from_json(data, f"argument {number}")
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
        raise CliError(f"cannot read {shown}: {error.strerror}", Exit.USAGE) from error
    number = 0
    try:
        if how == "whole":
            data = await read_whole(descriptor, most_bytes=MOST_BYTES)
            yield Outgoing(payload=data, read_bytes=len(data))
            return
        async for line in lines_of(descriptor, most_bytes=MOST_BYTES):
            number += 1
            if how == "lines":
                yield Outgoing(payload=line, read_bytes=len(line) + 1)
            elif line.strip():
                yield _from_json(line, f"{shown}, line {number},")
    except TooMuch as error:
        what = shown if how == "whole" else f"{shown}, line {number + 1},"
        raise CliError(
            f"{what} is larger than {MOST_BYTES >> 20} MiB, the limit for a message: split it",
            Exit.USAGE,
            code="MessageTooBig",
        ) from error
    except IsADirectoryError as error:
        raise CliError(f"{shown} is a folder: name the files in it", Exit.USAGE) from error
    finally:
        if descriptor:
            os.close(descriptor)


def _from_json(line: bytes, where: str) -> Outgoing:
    """Read an object with `payload` (text, or JSON that is sent as JSON) or `payload_base64`. Raises CliError."""
    try:
        given = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{where} is not JSON: {error}", Exit.USAGE, code="NotJson") from error
    if not isinstance(given, dict):
        raise CliError(
            f"{where} is not a JSON object; an object can have the members {_names()}",
            Exit.USAGE,
            code="NotJson",
        )
    unknown = given.keys() - _TAKEN - _PASSED_OVER
    if unknown:
        raise CliError(
            f"{where} has the unknown member {min(unknown)!r}; the members are {_names()}",
            Exit.USAGE,
            code="UnknownMember",
        )
    return Outgoing(
        payload=_payload(given, where),
        read_bytes=len(line) + 1,
        key=_text(given, "key", where),
        ordering_key=_text(given, "ordering_key", where),
        properties=_properties(given, where),
        event_ms=_time_ms(given, "event_ms", where),
        deliver_at_ms=_time_ms(given, "deliver_at_ms", where),
    )


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def _payload(given: dict[str, Any], where: str) -> bytes:
    payload, encoded = given.get("payload"), given.get("payload_base64")
    if (payload is None) is (encoded is None):
        raise CliError(f"{where} needs payload or payload_base64, and not both", Exit.USAGE, code="BadMember")
    try:
        if payload is not None:
            text = (
                payload
                if isinstance(payload, str)
                else json.dumps(payload, ensure_ascii=False, allow_nan=False)
            )
            return text.encode(errors="surrogatepass")
    except (ValueError, RecursionError) as error:
        raise _bad(where, "payload", "values that JSON can express") from error
    try:
        return base64.b64decode(encoded if isinstance(encoded, str) else "?", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad(where, "payload_base64", "base64 text") from error


def _properties(given: dict[str, Any], where: str) -> dict[str, str]:
    properties = given.get("properties")
    if properties is None:
        return {}
    if not isinstance(properties, dict):
        raise _bad(where, "properties", "an object whose values are text")
    for name, value in properties.items():
        if not (_is_text(name) and _is_text(value)):
            raise _bad(where, "properties", f"text in UTF-8 as values; look at {name!r}")
    return properties


def _text(given: dict[str, Any], name: str, where: str) -> str | None:
    value = given.get(name)
    if value is None or _is_text(value):
        return value
    raise _bad(where, name, "text in UTF-8")


def _time_ms(given: dict[str, Any], name: str, where: str) -> int | None:
    value = given.get(name)
    if value is None or (type(value) is int and 0 <= value <= _MOST_MS):
        return value
    raise _bad(where, name, f"milliseconds since 1970, a whole number from 0 to {_MOST_MS}")


def _is_text(value: object) -> bool:
    """Return whether a value is text without lone surrogates, which JSON can express and UTF-8 cannot."""
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


def _bad(where: str, name: str, what: str) -> CliError:
    return CliError(f"{where} has an invalid member {name!r}: use {what}", Exit.USAGE, code="BadMember")


def _names() -> str:
    return ", ".join(sorted(_TAKEN))


def files_of(files: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the files to read: standard input if there are neither files nor arguments."""
    return tuple(files) if files or arguments else ("-",)
