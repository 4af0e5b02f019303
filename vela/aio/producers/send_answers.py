"""Answer the messages of a send after the broker's receipt."""

from __future__ import annotations

import asyncio

from vela.core.producing.pending_sends import PendingSend
from vela.message import MessageId

__all__ = ["SendFuture", "answer"]

SendFuture = asyncio.Future[MessageId]


def answer(
    send: PendingSend[SendFuture], ledger_id: int, entry_id: int, *, topic: str, partition: int
) -> None:
    """Give each future its message id. For a duplicate (ledger -1) the position is unknown. Skips cancelled futures."""
    if send.is_batch:
        size = len(send.tokens)
        is_known = ledger_id >= 0
        for index, future in enumerate(send.tokens):
            if not future.done():
                batch_index = index if is_known else -1
                future.set_result(
                    MessageId(partition, ledger_id, entry_id, batch_index, batch_size=size, topic=topic)
                )
        return
    chunked = send.chunked
    first = None if chunked is None else chunked.first
    message_id = MessageId(partition, ledger_id, entry_id, topic=topic, first_chunk=first)
    if chunked is not None and first is None:
        chunked.first = message_id
    for future in send.tokens:
        if not future.done():
            future.set_result(message_id)
