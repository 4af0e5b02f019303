"""ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES, encoded by hand: a client may send an id for every message it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vela.wire import ack_set as ack_sets
from vela.wire import varint
from vela.wire.binary.enums import ValidationError
from vela.wire.binary.frames import simple_frame

__all__ = ["ack", "redeliver"]

_NO_PROPERTIES: Final[Mapping[str, int]] = {}
_ONE_BYTE: Final = 0x80


def ack(
    consumer_id: int,
    ids: Iterable[tuple[int, int, int | None]],
    *,
    cumulative: bool = False,
    validation_error: ValidationError | None = None,
    properties: Mapping[str, int] = _NO_PROPERTIES,
    request_id: int | None = None,
) -> bytes:
    """ACK of (ledger, entry, ack set); ack set None = the whole entry.

    `validation_error`: the reason why the client throws the entry away. `request_id` asks for an answer.
    """
    encode = varint.encode
    parts = [b"\x08%b\x10%c" % (encode(consumer_id), cumulative)]
    last_ledger_id, ledger = None, b""
    for ledger_id, entry_id, ack_set in ids:
        if ledger_id != last_ledger_id:
            last_ledger_id, ledger = ledger_id, b"\x08%b\x10" % encode(ledger_id)
        body = ledger + encode(entry_id)
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
    """REDELIVER_UNACKNOWLEDGED_MESSAGES of (ledger, entry); none = everything unacked."""
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
    if size < _ONE_BYTE:
        return b"%b%c%b" % (tag, size, body)
    return tag + varint.encode(size) + body
