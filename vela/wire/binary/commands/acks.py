"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES, encoded by hand for speed: clients may acknowledge every message alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vela.wire import ack_set as ack_sets
from vela.wire import varint
from vela.wire.binary.enums import ValidationError
from vela.wire.binary.frames import simple_frame

__all__ = ["ack", "redeliver"]

_NO_PROPERTIES: Final[Mapping[str, int]] = {}
_TWO_BYTES_FROM: Final = 0x80


def ack(
    consumer_id: int,
    ids: Iterable[tuple[int, int, int | None]],
    *,
    cumulative: bool = False,
    validation_error: ValidationError | None = None,
    properties: Mapping[str, int] = _NO_PROPERTIES,
    request_id: int | None = None,
) -> bytes:
    """Encode an ACK. Each id is (ledger, entry, ack set); ack set None means the whole entry.

    `validation_error`: why the client discards these entries. With `request_id`, the broker answers.
    """
    encode = varint.encode
    parts = [b"\x08%b\x10%c" % (encode(consumer_id), cumulative)]
    last_ledger_id, ledger_field = None, b""
    for ledger_id, entry_id, ack_set in ids:
        if ledger_id != last_ledger_id:
            last_ledger_id, ledger_field = ledger_id, b"\x08%b\x10" % encode(ledger_id)
        body = ledger_field + encode(entry_id)
        if ack_set is not None:
            body += b"".join([b"\x28" + encode(word) for word in ack_sets.to_words(ack_set)])
        parts.append(_field(b"\x1a", body))
    if validation_error is not None:
        parts.append(b"\x20%c" % validation_error)
    for name, value in properties.items():
        parts.append(_field(b"\x2a", _field(b"\x0a", name.encode()) + b"\x10" + encode(value)))
    if request_id is not None:
        parts.append(b"\x40" + encode(request_id))
    return simple_frame(b"\x08\x0a" + _field(b"\x52", b"".join(parts)))


def redeliver(
    consumer_id: int, positions: Sequence[tuple[int, int]] = (), *, epoch: int | None = None
) -> bytes:
    """Encode a REDELIVER_UNACKNOWLEDGED_MESSAGES for (ledger, entry) positions.

    Without positions it asks for everything unacked.
    """
    encode = varint.encode
    parts = [b"\x08" + encode(consumer_id)]
    parts += [
        _field(b"\x12", b"\x08%b\x10%b" % (encode(ledger_id), encode(entry_id)))
        for ledger_id, entry_id in positions
    ]
    if epoch is not None:
        parts.append(b"\x18" + encode(epoch))
    return simple_frame(b"\x08\x14" + _field(b"\xa2\x01", b"".join(parts)))


def _field(tag: bytes, body: bytes) -> bytes:
    """Return a field of bytes: its tag, its length and its content."""
    size = len(body)
    if size < _TWO_BYTES_FROM:
        return b"%b%c%b" % (tag, size, body)
    return tag + varint.encode(size) + body
