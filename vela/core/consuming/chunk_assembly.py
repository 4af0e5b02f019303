"""Join chunks to the message that they were cut from.

`I` is the caller's message id. It is compared for equality and returned, and never interpreted.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["EXPIRY_MS", "MAX_PENDING", "Chunk", "ChunkAssembler", "ChunkOutcome"]

I = TypeVar("I")  # noqa: E741 - an id

MAX_PENDING: Final = 10
EXPIRY_MS: Final = 60_000


class Chunk(NamedTuple):
    """What the metadata of an entry says of the message it is a piece of."""

    uuid: str
    chunk_id: int  # from 0
    chunks: int  # of the message
    total_bytes: int  # of the message, as it was cut: compressed, if it was
    age_ms: int  # since it was published, as far as the two computers' clocks agree


class ChunkOutcome(NamedTuple, Generic[I]):
    """What a chunk led to."""

    payload: bytes | None = None  # of the whole message (to be decompressed), None = not complete
    ids: tuple[I, ...] = ()  # of its chunks, in order, when complete
    acknowledge: tuple[I, ...] = ()  # will never be part of a message: ack these entries
    redeliver: tuple[I, ...] = ()  # not now, perhaps later: leave unacked and let them come again


class _Incomplete(Generic[I]):
    """A message of which chunks are missing."""

    __slots__ = ("chunks", "ids", "pieces", "received_bytes", "since_ms", "total_bytes")

    def __init__(self, chunk: Chunk, now_ms: int) -> None:
        self.chunks = chunk.chunks
        self.total_bytes = chunk.total_bytes
        self.since_ms = now_ms
        self.ids: list[I] = []
        self.pieces: list[bytes] = []
        self.received_bytes = 0


class ChunkAssembler(Generic[I]):
    """Messages under way, at most `max_pending` of them; beyond that the oldest is given up.

    `auto_ack_oldest`: the chunks of one given up are acked, otherwise they may come again. One that stays incomplete
    for `expiry_ms` is acked in any case: its producer is gone. 0 = never. Mirrors Pulsar's consumers.
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
        """Takes a chunk, its payload decrypted. A chunk delivered twice changes nothing.

        A first chunk begins anew; one out of order ends its message, whose chunks then come again or, when they are
        older than the expiry, are acked.
        """
        waiting = self._incomplete.get(chunk.uuid)
        acknowledge: list[I] = []
        redeliver: list[I] = []
        if waiting is not None and 0 <= chunk.chunk_id < len(waiting.ids):
            if waiting.ids[chunk.chunk_id] == message_id:
                return ChunkOutcome()  # delivered again, and still held here
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
        """Ids of chunks whose message stayed incomplete too long: to be acked."""
        expired: list[I] = []
        if self._expiry_ms:
            while self._incomplete:
                uuid, oldest = next(iter(self._incomplete.items()))
                if oldest.since_ms + self._expiry_ms > now_ms:
                    break
                expired += self._forget(uuid)
        return tuple(expired)

    def next_expiry_ms(self) -> int | None:
        """When `take_expired` has something to give, None = nothing waits."""
        if not self._expiry_ms or not self._incomplete:
            return None
        return next(iter(self._incomplete.values())).since_ms + self._expiry_ms

    def clear(self) -> None:
        """Forgets everything: the connection is new and unacked chunks come again."""
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
    """It is the next chunk of the message, and does not make it larger than it said it would be."""
    return (
        chunk.chunk_id == len(waiting.ids)
        and chunk.chunks == waiting.chunks
        and waiting.received_bytes + len(payload) <= waiting.total_bytes
    )
