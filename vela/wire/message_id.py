"""Message ids in their three forms: bytes, base64 and text."""

from __future__ import annotations

import base64
import binascii
import functools
from dataclasses import dataclass, field
from typing import Final

from vela.wire import varint
from vela.wire.errors import InvalidMessageId

__all__ = ["EARLIEST", "LATEST", "MessageId"]

_INT64: Final = range(-(1 << 63), 1 << 63)
_INT32_MAX: Final = (1 << 31) - 1


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class MessageId:
    """The id of one message: its entry and, if the entry is a batch, its index in the batch.

    Ordered by ledger, entry, batch index (then partition). `batch_size` takes no part in equality: the text
    form does not carry it, and an id names the same message with or without it.
    """

    ledger_id: int  # a broker sends -1 only in EARLIEST, which is also the last id of an empty topic
    entry_id: int
    partition: int = -1  # -1: the topic is not partitioned, or the partition is not known
    batch_index: int = -1  # -1: not a batch member
    batch_size: int = field(default=0, compare=False)  # messages in the batch, 0 = not a batch or not known

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self._order() < other._order()

    def _order(self) -> tuple[int, int, int, int]:
        return self.ledger_id, self.entry_id, self.batch_index, self.partition

    def to_bytes(self) -> bytes:
        """Return MessageIdData as Java writes it: batch_size always, partition and batch index if set."""
        parts = [b"\x08", varint.encode(self.ledger_id), b"\x10", varint.encode(self.entry_id)]
        if self.partition >= 0:
            parts += (b"\x18", varint.encode(self.partition))
        if self.batch_index >= 0:
            parts += (b"\x20", varint.encode(self.batch_index))
        parts += (b"\x30", varint.encode(self.batch_size))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> MessageId:
        """Read MessageIdData. Fields may be in any order; unknown fields are ignored. Raises InvalidMessageId."""
        try:
            fields = _varint_fields(data)
        except ValueError as error:
            raise InvalidMessageId(f"not a message id: {error}") from None
        if 1 not in fields or 2 not in fields:
            raise InvalidMessageId("not a message id: ledger or entry is missing")
        return cls(
            ledger_id=varint.signed64(fields[1]),
            entry_id=varint.signed64(fields[2]),
            partition=_small(fields, 3, default=-1),
            batch_index=_small(fields, 4, default=-1),
            batch_size=_small(fields, 6, default=0),
        )

    def to_base64(self) -> str:
        """Return standard base64 with padding, as JSON over WebSocket carries it."""
        return base64.b64encode(self.to_bytes()).decode("ascii")

    @classmethod
    def from_base64(cls, text: str) -> MessageId:
        """Read the text that `to_base64` returns. Raises InvalidMessageId."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidMessageId("not a message id: not standard base64 with padding") from None
        return cls.from_bytes(data)

    def __str__(self) -> str:
        text = f"{self.ledger_id}:{self.entry_id}"
        if self.batch_index >= 0:
            return f"{text}:{self.partition}:{self.batch_index}"
        return f"{text}:{self.partition}" if self.partition >= 0 else text

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read "ledger:entry[:partition[:batch_index]]". Raises InvalidMessageId."""
        parts = text.split(":")
        try:
            numbers = [int(part) for part in parts]
        except ValueError:
            numbers = []
        if not 2 <= len(numbers) <= 4 or any(str(n) != part for n, part in zip(numbers, parts, strict=True)):
            raise InvalidMessageId(
                "write a message id as ledger:entry[:partition[:batch_index]], all integers"
            )
        if any(n not in _INT64 for n in numbers[:2]) or any(not -1 <= n <= _INT32_MAX for n in numbers[2:]):
            raise InvalidMessageId("a number of the message id is out of range")
        return cls(*numbers)


EARLIEST: Final = MessageId(-1, -1)
"""Before the first message of a topic."""
LATEST: Final = MessageId((1 << 63) - 1, (1 << 63) - 1)
"""After the last message of a topic."""


def _small(fields: dict[int, int], number: int, *, default: int) -> int:
    value = varint.signed64(fields.get(number, default & varint.UINT64_MASK))
    if not default <= value <= _INT32_MAX:
        raise InvalidMessageId(f"not a message id: field {number} is out of range")
    return value


def _varint_fields(data: bytes) -> dict[int, int]:
    """Return the varint fields by number. The last of repeated fields counts. Fields of other types are skipped.

    Raises ValueError for bytes that are not protobuf, and for groups.
    """
    fields: dict[int, int] = {}
    offset = 0
    while offset < len(data):
        key, offset = varint.decode(data, offset)
        wire_type = key & 7
        if wire_type == 0:
            fields[key >> 3], offset = varint.decode(data, offset)
        elif wire_type == 2:
            size, offset = varint.decode(data, offset)
            offset += size
        elif wire_type in (1, 5):
            offset += 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"unsupported wire type {wire_type}")
        if key >> 3 == 0 or offset > len(data):
            raise ValueError("a field is cut off or has number 0")
    return fields
