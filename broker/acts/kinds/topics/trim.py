"""Trim a topic's ledgers now."""

from __future__ import annotations

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import NoParameters
from broker.acts.kinds.topics.members import change_each, members
from broker.core.counted import counted
from broker.core.ledgers.retention import Retention

__all__ = ["TrimTopic"]


class TrimTopic(DirectKind[NoParameters]):
    """Trim the ledgers that every durable subscription has acked and that retention does not keep."""

    name = "trim"
    summary = "Free the acked messages that retention no longer keeps, without waiting for the next round."
    scope = Scope.TOPIC
    can_be_requested = False  # Only the admin API creates this act, so `requests.plan` refuses it
    no_undo = "it cannot be undone: nobody can rewind to the messages that are freed"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        words = []
        for name in await members(context):
            topic = await context.topics.open(name, create=False)
            found = context.tools.trimmer.trimmable(
                topic,
                Retention(time_ms=topic.policies.retention_ms, size_bytes=topic.policies.retention_bytes),
            )
            messages = counted(found.messages, "message", "messages")
            words.append(f"{name}: {messages} of {counted(found.size_bytes, 'byte', 'bytes')} can be freed")
        return Effect(
            words=tuple(words),
            notes=("messages pinned by an undo window or a bookmark stay, and so does the open ledger",),
        )

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        await change_each(context, await members(context), context.tools.trimmer.trim)
