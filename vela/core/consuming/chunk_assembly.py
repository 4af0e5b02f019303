"""Join chunks into the message that they were cut from.

`I` is the caller's message id. This module compares ids for equality and returns them, but never interprets them.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["EXPIRY_MS", "MAX_PENDING", "Chunk", "ChunkAssembler", "ChunkOutcome"]

I = TypeVar("I")  # noqa: E741 - an id

MAX_PENDING: Final = 10
EXPIRY_MS: Final = 60_000


class Chunk(NamedTuple):
    """The metadata of a chunk."""

    uuid: str
    chunk_id: int  # from 0
    chunks: int  # of the message
    total_bytes: int  # of the message when it was cut, so after compression
    age_ms: int  # since it was published, as far as the two computers' clocks agree


class ChunkOutcome(NamedTuple, Generic[I]):
    """The result of one chunk."""

    payload: bytes | None = None  # of the whole message, still compressed; None = incomplete
    ids: tuple[I, ...] = ()  # ids of its chunks, in order, if complete
    acknowledge: tuple[I, ...] = ()  # entries to ack, because they will never be part of a message
    # entries to request again, because they may complete a message after redelivery
    redeliver: tuple[I, ...] = ()


class _Incomplete(Generic[I]):
    """A message with missing chunks."""

    __slots__ = ("chunks", "ids", "pieces", "received_bytes", "since_ms", "total_bytes")

    def __init__(self, chunk: Chunk, now_ms: int) -> None:
        self.chunks = chunk.chunks
        self.total_bytes = chunk.total_bytes
        self.since_ms = now_ms
        self.ids: list[I] = []
        self.pieces: list[bytes] = []
        self.received_bytes = 0


class ChunkAssembler(Generic[I]):
    """The incomplete messages, at most `max_pending` of them. Beyond that, the oldest is given up.

    With `auto_ack_oldest`, the chunks of a message that is given up are acked; otherwise they may be delivered again.
    The chunks of a message that stays incomplete for `expiry_ms` (0 = no limit) are acked in any case, because its
    producer has probably gone. Pulsar's consumers do the same.
    """

    __slots__ = ("_auto_ack_oldest", "_expiry_ms", "_incomplete", "_max_pending")

    def __init__(
        self,
        *,
        max_pending: int = MAX_PENDING,
        expiry_ms: int = EXPIRY_MS,
        auto_ack_oldest: bool = False,
    ) -> None:
        self._max_pending = max_pending  # 0 = no limit
        self._expiry_ms = expiry_ms
        self._auto_ack_oldest = auto_ack_oldest
        self._incomplete: dict[str, _Incomplete[I]] = {}  # by uuid, oldest first

    def __len__(self) -> int:
        return len(self._incomplete)

    def add(self, chunk: Chunk, message_id: I, payload: bytes, now_ms: int) -> ChunkOutcome[I]:
        """Take a chunk with its decrypted payload.

        A chunk that is delivered twice changes nothing. If its producer sent it twice, the second copy is acked, except
        that a first chunk starts its message again. A chunk out of order ends its message: the chunks so far are acked
        if this one is older than the expiry, else delivered again.
        """
        waiting = self._incomplete.get(chunk.uuid)
        acknowledge: list[I] = []
        redeliver: list[I] = []
        if waiting is not None and 0 <= chunk.chunk_id < len(waiting.ids):
            if waiting.ids[chunk.chunk_id] == message_id:
                return ChunkOutcome()  # delivered again, and already here
            if chunk.chunk_id > 0:
                return ChunkOutcome(acknowledge=(message_id,))  # its producer sent it twice
            acknowledge += self._forget(chunk.uuid)  # sent again from the start: the first copy ends here
        if chunk.chunk_id == 0:
            waiting = self._begin(chunk, now_ms, acknowledge, redeliver)
        if waiting is None or not _continues(waiting, chunk, payload):
            lost = [*self._forget(chunk.uuid), message_id]
            (acknowledge if self._is_old(chunk) else redeliver).extend(lost)
            return ChunkOutcome(acknowledge=tuple(acknowledge), redeliver=tuple(redeliver))
        waiting.ids.append(message_id)
        waiting.pieces.append(payload)
        waiting.received_bytes += len(payload)
        if len(waiting.ids) < waiting.chunks:
            return ChunkOutcome(acknowledge=tuple(acknowledge), redeliver=tuple(redeliver))
        del self._incomplete[chunk.uuid]
        return ChunkOutcome(
            b"".join(waiting.pieces), tuple(waiting.ids), tuple(acknowledge), tuple(redeliver)
        )

    def take_expired(self, now_ms: int) -> tuple[I, ...]:
        """Remove messages that stayed incomplete for too long, and return the ids of their chunks to ack."""
        expired: list[I] = []
        if self._expiry_ms:
            while self._incomplete:
                uuid, oldest = next(iter(self._incomplete.items()))
                if oldest.since_ms + self._expiry_ms > now_ms:
                    break
                expired += self._forget(uuid)
        return tuple(expired)

    def next_expiry_ms(self) -> int | None:
        """Return when `take_expired` will have something, or None if nothing expires."""
        if not self._expiry_ms or not self._incomplete:
            return None
        return next(iter(self._incomplete.values())).since_ms + self._expiry_ms

    def clear(self) -> None:
        """Forget all incomplete messages."""
        self._incomplete.clear()

    def _begin(self, chunk: Chunk, now_ms: int, acknowledge: list[I], redeliver: list[I]) -> _Incomplete[I]:
        if self._max_pending and len(self._incomplete) >= self._max_pending:
            oldest = next(iter(self._incomplete))
            (acknowledge if self._auto_ack_oldest else redeliver).extend(self._forget(oldest))
        waiting = self._incomplete[chunk.uuid] = _Incomplete[I](chunk, now_ms)
        return waiting

    def _forget(self, uuid: str) -> list[I]:
        waiting = self._incomplete.pop(uuid, None)
        return [] if waiting is None else waiting.ids

    def _is_old(self, chunk: Chunk) -> bool:
        return 0 < self._expiry_ms <= chunk.age_ms


def _continues(waiting: _Incomplete[I], chunk: Chunk, payload: bytes) -> bool:
    """Return whether this is the next chunk of the message and the message stays within its announced size."""
    return (
        chunk.chunk_id == len(waiting.ids)
        and chunk.chunks == waiting.chunks
        and waiting.received_bytes + len(payload) <= waiting.total_bytes
    )
