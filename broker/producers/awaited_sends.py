"""Let senders wait for their receipts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.core.errors import BrokerError, SendOutcomeUnknown
from broker.log.sends import Receipt, SendRequest

__all__ = ["AwaitedSends"]


class AwaitedSends:
    """The part of a `ProducerSink` that receives the answers to sends."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Receipt]] = {}

    def expect(self, sequence_id: int) -> asyncio.Future[Receipt]:
        """Return a future that gets the receipt of a send, or a BrokerError."""
        answer = self._waiting[sequence_id] = asyncio.get_running_loop().create_future()
        return answer

    def give_up(self, why: str) -> None:
        """Fail every unanswered send with SendOutcomeUnknown. Safe to repeat."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(SendOutcomeUnknown(why))

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Give each waiting sender its receipt."""
        for receipt in receipts:
            answer = self._waiting.pop(receipt.sequence_id, None)
            if answer is not None and not answer.done():
                answer.set_result(receipt)

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Fail one send with `error`."""
        answer = self._waiting.pop(request.sequence_id, None)
        if answer is not None and not answer.done():
            answer.set_exception(error)
