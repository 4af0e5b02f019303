"""Decode a payload with the first decoder that succeeds, and report why the earlier decoders failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.messages.decoders.avro import decode_avro
from console.messages.decoders.compressed import MOST_LAYERS, compression_of, decompressed
from console.messages.decoders.failures import CannotDecode
from console.messages.decoders.schemas import SchemaAt, decode_primitive

__all__ = ["Attempt", "Decoded", "decode"]

_CUT = gettext_noop("only the beginning of the body was read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One decoder that was tried."""

    decoder: str
    why: str = ""  # Empty if the decoder succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The result of decoding a payload."""

    decoder: str  # Successful decoders, such as "gzip, JSON"
    attempts: tuple[Attempt, ...]
    data: bytes
    value: Any = None
    has_value: bool = False
    text: str = ""


def decode(payload: bytes, *, schema: SchemaAt | None, is_whole: bool, most_bytes: int) -> Decoded:
    """Decode a payload. An incomplete payload is decoded only as text.

    A payload that decompresses to more than `most_bytes` stays compressed.
    """
    attempts: list[Attempt] = []
    layers: list[str] = []
    data = payload
    while len(layers) < MOST_LAYERS and (name := compression_of(data)):
        try:
            if not is_whole:
                raise CannotDecode(_(_CUT))
            data = decompressed(name, data, most_bytes=most_bytes)
        except CannotDecode as error:
            attempts.append(Attempt(decoder=name, why=str(error)))
            break
        attempts.append(Attempt(decoder=name))
        layers.append(name)
    for name, value, why in _values(data, schema, is_whole=is_whole):
        attempts.append(Attempt(decoder=name, why=why))
        if not why:
            return Decoded(
                decoder=", ".join([*layers, name]),
                attempts=tuple(attempts),
                data=data,
                value=value,
                has_value=True,
                text=value if isinstance(value, str) else _text(data)[0],
            )
    text, why = _text(data, is_whole=is_whole)
    attempts.append(Attempt(decoder="text", why=why))
    if not why:
        layers.append("text")
    return Decoded(decoder=", ".join(layers), attempts=tuple(attempts), data=data, text=text)


def _values(data: bytes, schema: SchemaAt | None, *, is_whole: bool) -> Iterator[tuple[str, Any, str]]:
    decoders: list[tuple[str, Any]] = []
    if schema is not None and schema.is_avro:
        decoders.append((schema.words, lambda: decode_avro(data, schema.data)))
    elif schema is not None and not schema.is_json:
        decoders.append((schema.words, lambda: decode_primitive(data, schema)))
    decoders += [("JSON", lambda: _json(data)), ("MessagePack", lambda: _message_pack(data))]
    for name, run in decoders:
        if not is_whole:
            yield name, None, _(_CUT)
            continue
        try:
            value = run()
        except CannotDecode as error:
            yield name, None, str(error)
        else:
            yield name, value, ""


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise CannotDecode(_("it is nested too deeply")) from None
    except ValueError as error:
        raise CannotDecode(str(error)) from None


def _message_pack(data: bytes) -> Any:
    """Accept only maps and arrays, because each ASCII character alone is a valid MessagePack number."""
    try:
        value = msgspec.msgpack.decode(data)
    except RecursionError:
        raise CannotDecode(_("it is nested too deeply")) from None
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise CannotDecode(str(error)) from None
    if not isinstance(value, dict | list):
        raise CannotDecode(_("it is neither a map nor an array"))
    return value


def _text(data: bytes, *, is_whole: bool = True) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # The payload may have been cut inside its last character.
        if is_whole or error.start < len(data) - 3:
            return "", _("it is not UTF-8 at byte {at}").format(at=error.start)
        text = data[: error.start].decode()
    for at, character in enumerate(text):
        if character < " " and character not in "\t\r\n":
            return "", _("it has the control character U+{code:04X} at character {at}").format(
                code=ord(character), at=at
            )
    return text, ""
