"""Recognises the metadata that nearly every message sent alone has, without protobuf.

The broker needs few facts about an entry, and most of these facts are the same for all such entries. This module finds
the remaining facts in a quarter of the time of `parse_header`, which reads every entry that this module does not
recognise, valid or not.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from vela.wire import varint
from vela.wire.checksum import MAGIC, PREFIX_BYTES

__all__ = ["PlainHead", "plain_head"]

_START: Final = struct.Struct(">2s4xIBB")  # magic, CRC, metadata size, the name's tag and length
_METADATA_AT: Final = PREFIX_BYTES + 4
_NAME_AT: Final = _METADATA_AT + 2
_NAME: Final = 0x0A
_KEY: Final = 0x32
_ONE_BYTE: Final = 0x80  # a varint below this takes one byte
_VARINT: Final = rb"[\x80-\xff]{0,8}[\x00-\x7f]"
_IDS: Final = re.compile(rb"\x10%b\x18%b" % (_VARINT, _VARINT))  # sequence id and publish time
_UNCOMPRESSED_SIZE: Final = re.compile(rb"\x48([\x80-\xff]{0,3}[\x00-\x7f])")


class PlainHead(NamedTuple):
    """The fields in which plain entries differ. A plain entry is one message, not delayed, compressed or chunked."""

    payload_offset: int  # from the start of the entry
    key: bytes | None  # its partition key, in ASCII
    uncompressed_size: int  # as the producer says, 0 = not said


def plain_head(entry: bytes) -> PlainHead | None:
    """Return the head of an entry if its metadata is plain, without looking at its checksum or payload.

    Plain means: a producer name, a sequence id and a publish time, then a key or none, then an uncompressed size or
    none, and nothing else. Names and keys are short and in ASCII.
    """
    if len(entry) < _NAME_AT:
        return None
    magic, metadata_bytes, tag, name_bytes = _START.unpack_from(entry)
    payload_offset = _METADATA_AT + metadata_bytes
    at = _NAME_AT + name_bytes
    if tag != _NAME or name_bytes >= _ONE_BYTE or magic != MAGIC or payload_offset > len(entry):
        return None
    ids = _IDS.match(entry, at, payload_offset)
    if ids is None or not entry[_NAME_AT:at].isascii():
        return None
    at = ids.end()
    key, uncompressed_size = None, 0
    if at < payload_offset - 1 and entry[at] == _KEY and entry[at + 1] < _ONE_BYTE:
        begin = at + 2
        at = begin + entry[at + 1]
        key = entry[begin:at]
        if not key.isascii():
            return None
    if at != payload_offset:
        size = _UNCOMPRESSED_SIZE.fullmatch(entry, at, payload_offset)
        if size is None:
            return None
        uncompressed_size = varint.value_of(size[1])
    return PlainHead(payload_offset, key, uncompressed_size)
