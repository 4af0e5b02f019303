"""Messages that were sent and wait for their receipts, answered in order and sent again after a reconnect.

`T` is what the caller stores for each message to answer it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from vela.core.producing.chunks import ChunkedSend

__all__ = ["NEVER_MS", "PendingSend", "PendingSends", "UnexpectedReceipt"]

T = TypeVar("T")
NEVER_MS: Final = 1 << 62
"""The deadline of a send without a timeout."""


class UnexpectedReceipt(Exception):
    """A receipt for a later send than the first that waits.

    Do not trust the connection: send everything again on another one.
    """


class PendingSend(Generic[T]):
    """One SEND: a message, a batch or a chunk."""

    __slots__ = (
        "chunked",
        "deadline_ms",
        "frame",
        "is_batch",
        "last_sequence_id",
        "payload_bytes",
        "sent_ms",
        "sequence_id",
        "tokens",
    )

    def __init__(
        self,
        frame: tuple[bytes, bytes],
        tokens: list[T],
        *,
        sequence_id: int,
        last_sequence_id: int,
        is_batch: bool,
        payload_bytes: int,
        sent_ms: int,
        deadline_ms: int,
        chunked: ChunkedSend | None = None,
    ) -> None:
        self.frame = frame  # the bytes to send, and to send again after a reconnect
        self.tokens = tokens  # one per message; a chunk that is not the last has none
        self.sequence_id = sequence_id  # of the first message
        self.last_sequence_id = last_sequence_id  # of the last message
        self.is_batch = is_batch
        self.payload_bytes = payload_bytes  # size of the application's payloads
        self.sent_ms = sent_ms  # when it was first sent or queued
        self.deadline_ms = deadline_ms  # when the send timeout ends
        self.chunked = chunked  # shared by the chunks of one message, None = not chunked


class PendingSends(Generic[T]):
    """The sends without a receipt, in order."""

    __slots__ = ("_sends",)

    def __init__(self) -> None:
        self._sends: deque[PendingSend[T]] = deque()

    def __len__(self) -> int:
        return len(self._sends)

    def __iter__(self) -> Iterator[PendingSend[T]]:
        return iter(self._sends)

    def push(self, send: PendingSend[T]) -> None:
        """Add a send that goes out now, or once there is a connection."""
        self._sends.append(send)

    def take_receipt(self, sequence_id: int) -> PendingSend[T] | None:
        """Remove and return the first send if the receipt is for it.

        Returns None for a second receipt, and for one of a send that was given up. If the receipt is for a later send,
        raises UnexpectedReceipt and changes nothing.
        """
        sends = self._sends
        if not sends:
            return None
        head = sends[0]
        if sequence_id < head.sequence_id:
            return None
        if sequence_id > head.last_sequence_id:
            raise UnexpectedReceipt(
                f"an answer to sequence id {sequence_id} while {head.sequence_id} is the first that waits"
            )
        return sends.popleft()

    def take_refused(self, sequence_id: int) -> list[PendingSend[T]]:
        """Remove and return the first send if the SEND_ERROR is for it, with its message's other chunks.

        Brokers name the send's last sequence id; this accepts any id of the send. Returns nothing if the error is for a
        send that was given up. Raises UnexpectedReceipt like `take_receipt`.
        """
        head = self.take_receipt(sequence_id)
        return [] if head is None else [head, *self._rest_of(head)]

    def take_due(self, now_ms: int) -> list[PendingSend[T]]:
        """Remove and return the sends whose time is over, in order."""
        sends, due = self._sends, list[PendingSend[T]]()
        while sends and sends[0].deadline_ms <= now_ms:
            due.append(sends.popleft())
        return due

    def take_all(self) -> list[PendingSend[T]]:
        """Remove and return every send, in order, because the producer is closed or has failed."""
        taken = list(self._sends)
        self._sends.clear()
        return taken

    def next_deadline_ms(self) -> int | None:
        """Return the deadline of the first send, or None if nothing waits or sends may wait for ever."""
        if not self._sends or self._sends[0].deadline_ms >= NEVER_MS:
            return None
        return self._sends[0].deadline_ms

    def _rest_of(self, head: PendingSend[T]) -> list[PendingSend[T]]:
        sends, rest = self._sends, list[PendingSend[T]]()
        if head.chunked is not None:
            while sends and sends[0].chunked is head.chunked:
                rest.append(sends.popleft())
        return rest
