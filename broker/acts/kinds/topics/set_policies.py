"""Set policies of a namespace or a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from broker.acts.kinds.base import ActContext, ActKind, Plan, Scope
from broker.acts.kinds.direct import Effect
from broker.acts.kinds.parameters import ActInvalid, Rule
from broker.acts.kinds.topics.policy_losses import losses
from broker.core.counted import counted
from broker.core.policies import FIELDS, Policies, PolicyInvalid, PolicyLevel, PolicyValue
from broker.core.policies.words import kept
from broker.core.topic_name import TopicName
from broker.storage.pool import repeat_until_done
from broker.storage.topics import life as store
from broker.topics import policies
from broker.topics.policies import Holder

__all__ = ["NamespacePolicies", "SetNamespacePolicies", "SetTopicPolicies", "TopicPolicies"]

_MOST_LOADED: Final = 50  # Maximum number of partitions that one plan loads


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    set: Annotated[
        Mapping[str, str], Rule("policies to set, by name; values are text such as 1h, 10GB or 60000")
    ] = field(default_factory=dict)
    unset: Annotated[str, Rule("policies to remove, separated by commas; the level above applies again")] = ""

    @property
    def to_unset(self) -> tuple[str, ...]:
        """Return the names of the policies to unset."""
        return tuple(each.strip() for each in self.unset.split(",") if each.strip())

    def check(self, level: PolicyLevel) -> None:
        """Raise ActInvalid if a policy is invalid, or if no policy is named."""
        try:
            policies.parsed(self.set, level)
            policies.check_names(self.to_unset, level)
        except PolicyInvalid as error:
            raise ActInvalid(str(error)) from error
        if not self.set and not self.to_unset:
            raise ActInvalid("name a policy to set or to unset")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePolicies(_Change):
    """The policies to set and to unset on a namespace."""

    def __post_init__(self) -> None:
        self.check(PolicyLevel.NAMESPACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicies(_Change):
    """The policies to set and to unset on a topic."""

    def __post_init__(self) -> None:
        self.check(PolicyLevel.TOPIC)


class _SetPolicies(ActKind[Any]):
    no_undo = "to undo it, set the earlier policies"

    def holder(self, context: ActContext) -> Holder:
        """Return the namespace or topic whose policies change."""
        raise NotImplementedError

    async def plan(self, context: ActContext, given: _Change) -> Plan:
        holder, documents = self.holder(context), context.tools.policies.documents
        state = await documents.read(holder)
        after = policies.changed(
            state, holder.level, to_set=policies.parsed(given.set, holder.level), to_unset=given.to_unset
        )
        in_force = documents.in_force_with(holder, after, state.above)
        names = sorted({*given.set, *given.to_unset})
        await self._load(context, holder)
        loaded = [topic for topic in context.topics.all() if holder.covers(topic.name)]
        notes = []
        if holder.topic is None:
            overridden = await documents.overridden(state, names)
            notes = [
                f"{counted(count, 'topic has its', 'topics have their')} own {name}, which stays"
                for name, count in overridden.items()
            ]
        notes.append(
            f"it takes effect at once; {counted(len(loaded), 'topic is', 'topics are')} in memory now"
        )
        would_have = await documents.of_topics_with(holder, after, [topic.name for topic in loaded])
        lost = await losses(context.tools.trimmer, loaded, would_have, context.clock.now_ms())
        effect = Effect(
            words=_differences(state.in_force, in_force) or ("the policies in force do not change",),
            notes=(*notes, *_kept(names, in_force), *lost.notes(), *_warnings(state.in_force, in_force)),
            pinned={"before": dict(state.document), "after": after},
        )
        return Plan(
            shown={
                **effect.to_json(),
                "freed_messages": lost.freed_messages,
                "freed_bytes": lost.freed_bytes,
                "lost_messages": lost.lost_messages,
            }
        )

    async def _load(self, context: ActContext, holder: Holder) -> None:
        """Load the topic or its partitions, so that the plan can count lost messages.

        Skip partitions that are already loading, because a wait would delay the next acts.
        """
        if holder.topic is not None and holder.topic.domain == "persistent":
            members = await repeat_until_done(
                context.pool, lambda c: store.members(c, holder.name), what="finding partitions"
            )
            for name in [*members.values()][:_MOST_LOADED]:
                if not context.topics.is_loading(name):
                    await context.topics.open_named(name)

    async def apply(self, context: ActContext, given: _Change) -> Mapping[str, Any]:
        planned = context.act.plan or {}
        pinned = planned["pinned"]
        await context.begin()
        await context.tools.policies.change(
            self.holder(context), before=pinned["before"], after=pinned["after"]
        )
        return planned


class SetNamespacePolicies(_SetPolicies):
    """Set policies of a namespace."""

    name = "set_namespace_policies"
    summary = "Set or unset policies of a namespace."
    scope = Scope.NAMESPACE
    parameters = NamespacePolicies

    def holder(self, context: ActContext) -> Holder:
        return Holder.of_namespace(context.act.topic_name)


class SetTopicPolicies(_SetPolicies):
    """Set policies of a topic and all its partitions."""

    name = "set_topic_policies"
    summary = "Set or unset policies of a topic."
    scope = Scope.TOPIC
    parameters = TopicPolicies

    def holder(self, context: ActContext) -> Holder:
        return Holder.of_topic(TopicName.parse(context.act.topic_name))


def _differences(before: Policies, after: Policies) -> tuple[str, ...]:
    return tuple(
        f"policy {each.name} changes from {_shown(each.name, each.before)} to {_shown(each.name, each.after)}"
        for each in policies.differences(before, after)
    )


def _shown(name: str, value: PolicyValue) -> str:
    return FIELDS[name].words(value)


def _kept(names: Sequence[str], after: Policies) -> tuple[str, ...]:
    if not {"retention_ms", "retention_bytes"}.intersection(names):
        return ()
    return (f"retention_ms and retention_bytes both apply: acked messages are {kept(after)}",)


def _is_stricter(before: int, after: int) -> bool:
    """Return whether a limit becomes stricter. -1 means no limit."""
    return after >= 0 and (before < 0 or after < before)


def _warnings(before: Policies, after: Policies) -> list[str]:
    notes = []
    if _is_stricter(before.retention_ms, after.retention_ms) or _is_stricter(
        before.retention_bytes, after.retention_bytes
    ):
        notes.append(
            "the retention limit is lowered: messages that all subscriptions have acked may be deleted earlier,"
            " permanently"
        )
    if after.message_ttl_ms and (not before.message_ttl_ms or after.message_ttl_ms < before.message_ttl_ms):
        notes.append("messages that are not acked within message_ttl_ms will not be delivered")
    if after.subscription_expiry_ms and not before.subscription_expiry_ms:
        notes.append(
            "subscriptions that nobody has used for subscription_expiry_ms are deleted with their backlog"
        )
    if after.delete_inactive_topics and not before.delete_inactive_topics:
        notes.append("topics that nobody has used for inactive_topic_ms are deleted")
    if after.second_person and not before.second_person:
        notes.append(
            "from then on, another user must apply each act that a user plans here, including a change of this policy;"
            " acts with a token, by manage.py or by the admin API are refused"
        )
    return notes
