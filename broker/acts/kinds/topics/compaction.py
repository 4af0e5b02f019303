"""Compact topics, and delete what compaction stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.acts.kinds.base import ActContext, ActKind, Plan, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import NoParameters, NothingToActOn
from broker.acts.kinds.topics.members import members
from broker.core.counted import counted
from broker.storage.log.compaction import CompactionResult, Kept
from broker.topics.compaction.compactor import CompactionBusy

if TYPE_CHECKING:
    from broker.topics.compaction.compactor import Measured
    from broker.topics.topic import Topic

__all__ = ["Compact", "DeleteCompaction"]


class Compact(ActKind[NoParameters]):
    """Compact a topic or all its partitions."""

    name = "compact"
    summary = "Keep the latest message of each key for readers of the compacted topic."
    scope = Scope.TOPIC
    is_long = True
    no_undo = (
        "compaction does not change the log, so there is nothing to undo: other consumers and readers still get"
        " every message"
    )
    parameters = NoParameters

    async def plan(self, context: ActContext, given: NoParameters) -> Plan:
        words: list[str] = []
        notes = [self.no_undo]
        kept, removed, removed_bytes = Kept(), 0, 0
        for topic in await _topics(context):
            if topic.compacted.is_running:
                raise CompactionBusy(f"{topic.name} is being compacted already")
            found = await context.tools.compactor.measure(topic)
            kept, removed = kept + found.kept, removed + found.removed_messages
            removed_bytes += found.removed_bytes
            words.append(_planned(topic, found))
            if not found.is_complete:
                notes.append(
                    f"the plan has read only the first {found.entries} entries of {topic.name}; the act reads all of"
                    " them"
                )
        return Plan(
            shown={
                "words": words,
                **_figures(kept, removed),
                "removed_bytes": removed_bytes,
                **_NOBODY,
                "consumers_kept": sum(
                    len(each.consumers)
                    for topic in await _topics(context)
                    for each in topic.subscriptions.values()
                ),
                "notes": notes,
            }
        )

    async def apply(self, context: ActContext, given: NoParameters) -> Mapping[str, Any]:
        words: list[str] = []
        kept, removed = Kept(), 0
        topics = await _topics(context)
        for done, topic in enumerate(topics):

            async def report(percent: int, *, done: int = done) -> None:
                await context.report({"percent": (100 * done + percent) // len(topics)})

            result = await context.tools.compactor.compact(topic, report=report)
            kept, removed = kept + result.kept, removed + result.removed_messages
            words.append(_done(topic, result))
        return {"words": words, **_figures(kept, removed), **_NOBODY}


class DeleteCompaction(DirectKind[NoParameters]):
    """Delete what compaction stored for a topic or for all its partitions."""

    name = "delete_compaction"
    summary = "Delete the compacted topic. Its readers then get the log."
    scope = Scope.TOPIC
    no_undo = "it cannot be undone: messages that only the compacted topic still has are gone"
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        compacted = [topic for topic in await _topics(context) if topic.compacted.stored is not None]
        if not compacted:
            raise NothingToActOn(f"{context.act.topic_name} was never compacted")
        words = []
        for topic in compacted:
            kept = topic.compacted.stored.kept if topic.compacted.stored is not None else Kept()
            messages = counted(kept.messages, "message is", "messages are")
            words.append(
                f"{topic.name}: {messages} deleted from the compacted topic ({kept.size_bytes} bytes),"
                " none from the log"
            )
        return Effect(words=tuple(words))

    async def already_done(self, context: ActContext) -> Effect | None:
        if any(topic.compacted.stored is not None for topic in await _topics(context)):
            return None
        return Effect(
            words=(
                (
                    "the compacted messages were already deleted: by another act, or by a broker that died before it"
                    " stored their number"
                ),
            )
        )

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        for topic in await _topics(context):
            await context.tools.compactor.forget(topic)


_NOBODY: Final = {"replayed_messages": 0, "skipped_messages": 0, "consumers_closed": 0}


async def _topics(context: ActContext) -> list[Topic]:
    return [await context.topics.open(name, create=False) for name in await members(context)]


def _figures(kept: Kept, removed_messages: int) -> dict[str, int]:
    return {
        "kept_messages": kept.messages,
        "kept_bytes": kept.size_bytes,
        "removed_messages": removed_messages,
    }


def _planned(topic: Topic, found: Measured) -> str:
    kept = counted(found.kept.messages, "message", "messages")
    left_out = counted(found.removed_messages, "message", "messages")
    return (
        f"{topic.name}: compaction keeps {kept} ({found.kept.size_bytes} bytes) for readers of the compacted topic"
        f" and leaves out {left_out} ({found.removed_bytes} bytes)"
    )


def _done(topic: Topic, result: CompactionResult) -> str:
    kept = counted(result.kept.messages, "message", "messages")
    left_out = counted(result.removed_messages, "message", "messages")
    return (
        f"{topic.name}: compaction kept {kept} ({result.kept.size_bytes} bytes) for readers of the compacted topic"
        f" and left out {left_out}; the log did not change"
    )
