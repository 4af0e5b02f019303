"""Read and change the policy documents of namespaces and topics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError, NotAllowed, TopicNotFound
from broker.core.policies import FIELDS, Policies, PolicyInvalid, PolicyLevel, PolicyValue, checked
from broker.core.topic_name import TopicName, parse_namespace
from broker.storage.pool import repeat_until_done
from broker.storage.topics import policies as store
from broker.storage.topics import topics as topic_store
from broker.topics.policies_in_force import effective_policies

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.storage.pool import ConnectionPool
    from broker.topics.non_persistent.topics import NonPersistentTopics
    from broker.topics.topics import Topics

__all__ = [
    "Difference",
    "Holder",
    "PolicyChanges",
    "PolicyConflict",
    "PolicyDocuments",
    "PolicyState",
    "changed",
    "check_names",
    "differences",
    "parsed",
]

logger = logging.getLogger(__name__)

# Number of topics handled in one step.
_AT_ONCE: Final = 200


class PolicyConflict(BrokerError):
    """Somebody changed the policies after the caller had read them. The caller must read them again."""

    code = "MetadataError"
    retriable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A namespace or a topic that has a policy document."""

    level: PolicyLevel
    tenant: str
    namespace: str
    topic: TopicName | None  # None for a namespace

    @classmethod
    def of_namespace(cls, text: str) -> Holder:
        """Parse `tenant/namespace`. Raises InvalidTopicName."""
        tenant, namespace = parse_namespace(text)
        return cls(level=PolicyLevel.NAMESPACE, tenant=tenant, namespace=namespace, topic=None)

    @classmethod
    def of_topic(cls, name: TopicName) -> Holder:
        """Return the holder for a topic."""
        return cls(level=PolicyLevel.TOPIC, tenant=name.tenant, namespace=name.namespace, topic=name)

    @property
    def name(self) -> str:
        """`tenant/namespace`, or the topic's full name."""
        return f"{self.tenant}/{self.namespace}" if self.topic is None else self.topic.full

    def covers(self, name: TopicName) -> bool:
        """Return whether this holder's document applies to a topic."""
        if self.topic is None:
            return (name.tenant, name.namespace) == (self.tenant, self.namespace)
        return self.topic.full in (name.full, name.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """The policies set on a holder, and the policies in force there."""

    row_id: int
    document: Mapping[str, object]
    above: Mapping[str, object]  # The namespace's document if the holder is a topic, otherwise empty
    in_force: Policies


class PolicyDocuments:
    """Reads and stores policy documents, and computes the policies in force."""

    def __init__(self, pool: ConnectionPool, settings: BrokerSettings) -> None:
        self._pool = pool
        self._settings = settings

    async def read(self, holder: Holder) -> PolicyState:
        """Read a holder's policies.

        Raises TopicNotFound if the holder does not exist, and NotAllowed for a partition.
        """
        topic = holder.topic
        if topic is None:
            stored = await repeat_until_done(
                self._pool,
                lambda c: store.of_namespace(c, holder.tenant, holder.namespace),
                what="reading policies",
            )
        else:
            await self._require_no_partition(topic)
            stored = await repeat_until_done(
                self._pool, lambda c: store.of_topic(c, topic), what="reading policies"
            )
        if stored is None:
            raise TopicNotFound(f"there is no {holder.level} {holder.name}")
        return PolicyState(
            row_id=stored.row_id,
            document=stored.document,
            above=stored.above,
            in_force=self.in_force_with(holder, stored.document, stored.above),
        )

    async def _require_no_partition(self, topic: TopicName) -> None:
        if topic.partition is None:
            return
        base = TopicName.parse(topic.base)
        parent = await repeat_until_done(
            self._pool, lambda c: topic_store.find_topic(c, base), what="finding a topic"
        )
        if parent is not None and parent.partitions:
            raise NotAllowed(f"{topic} takes its policies from {base}: set policies there")

    def in_force_with(
        self, holder: Holder, document: Mapping[str, object], above: Mapping[str, object]
    ) -> Policies:
        """Return the policies that would be in force if a holder had this document.

        If the holder is a topic, `above` is its namespace's document.
        """
        namespace, topic = (document, {}) if holder.topic is None else (above, document)
        return effective_policies(self._settings, namespace, topic, where=holder.name)

    async def of_topics_with(
        self, holder: Holder, after: Mapping[str, object], topics: Sequence[TopicName]
    ) -> dict[str, Policies]:
        """Return the policies that each topic would have if `holder` had this document. Keys are full names."""
        found: dict[str, Policies] = {}
        for at in range(0, len(topics), _AT_ONCE):
            names = [each.full for each in topics[at : at + _AT_ONCE]]
            rows = await repeat_until_done(
                self._pool, partial(store.in_force, names=names), what="reading policies"
            )
            for name, namespace, own in rows:
                found[name] = effective_policies(
                    self._settings,
                    after if holder.topic is None else namespace,
                    own if holder.topic is None else after,
                    where=name,
                )
        return found

    async def overridden(self, state: PolicyState, names: list[str]) -> dict[str, int]:
        """Return how many topics of the namespace set each policy. Omit policies that no topic sets."""
        return await repeat_until_done(
            self._pool, lambda c: store.overriding(c, state.row_id, names), what="counting topics"
        )

    async def replace(
        self, holder: Holder, *, before: Mapping[str, object], after: Mapping[str, object]
    ) -> PolicyState:
        """Replace a holder's document. Safe to repeat.

        Raises the errors of `read`, and PolicyConflict if the stored document differs from both `before` and `after`.
        """
        state = await self.read(holder)
        if dict(state.document) == dict(after):
            return state
        stored = await repeat_until_done(
            self._pool,
            lambda c: store.change(
                c, is_topic=holder.topic is not None, row_id=state.row_id, before=before, after=after
            ),
            what="changing policies",
        )
        # If PostgreSQL's answer was lost after the change, the repeated statement changed nothing, and `stored` is
        # False.
        state = await self.read(holder)
        if not stored and dict(state.document) != dict(after):
            raise PolicyConflict(
                f"somebody changed the policies of {holder.name} after this plan; plan again"
            )
        logger.info("policies of %s changed: %s", holder.name, dict(after))
        return state

    async def stored_of(self, topics: Sequence[TopicName]) -> dict[str, Policies]:
        """Return the policies in force on these topics, keyed by full name. Leaves out topics that do not exist."""
        rows = await repeat_until_done(
            self._pool, lambda c: store.in_force(c, [each.full for each in topics]), what="reading policies"
        )
        return {
            name: effective_policies(self._settings, namespace, own, where=name)
            for name, namespace, own in rows
        }


def parsed(texts: Mapping[str, str], level: PolicyLevel) -> dict[str, PolicyValue]:
    """Parse policy values from text. Raises PolicyInvalid for a wrong name or value."""
    values = {name: FIELDS[name].parse(text) if name in FIELDS else text for name, text in texts.items()}
    return checked(values, level)


def check_names(names: Iterable[str], level: PolicyLevel) -> None:
    """Raise PolicyInvalid for a name that no policy has."""
    for name in names:
        if name not in FIELDS:
            checked({name: None}, level)  # Raises PolicyInvalid


def changed(
    state: PolicyState, level: PolicyLevel, *, to_set: Mapping[str, object], to_unset: tuple[str, ...]
) -> dict[str, object]:
    """Return the holder's document with these changes. Stores nothing.

    Raises PolicyInvalid if a name or value is wrong, if a policy in `to_unset` is not set, or if a policy is in both
    `to_set` and `to_unset`.
    """
    check_names(to_unset, level)
    for name in to_unset:
        if name not in state.document:
            raise PolicyInvalid(f"policy {name} is not set here")
        if name in to_set:
            raise PolicyInvalid(f"policy {name} is to be both set and unset")
    kept = {name: value for name, value in state.document.items() if name not in to_unset}
    return {**kept, **checked(to_set, level)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A policy in force, before and after a change."""

    name: str
    before: PolicyValue
    after: PolicyValue


def differences(before: Policies, after: Policies) -> list[Difference]:
    """Return the policies that differ between `before` and `after`."""
    old, new = asdict(before), asdict(after)
    return [
        Difference(name=name, before=old[name], after=new[name]) for name in old if old[name] != new[name]
    ]


class PolicyChanges:
    """Changes policy documents, and applies the changes to topics in memory."""

    def __init__(
        self, documents: PolicyDocuments, topics: Topics, non_persistent: NonPersistentTopics
    ) -> None:
        self.documents = documents
        self._topics = topics
        self._non_persistent = non_persistent

    async def change(
        self, holder: Holder, *, before: Mapping[str, object], after: Mapping[str, object]
    ) -> PolicyState:
        """Replace a holder's document, and put the new document in force. Safe to repeat.

        Raises the errors of `PolicyDocuments.replace`.
        """
        state = await self.documents.replace(holder, before=before, after=after)
        await self.reload(holder)
        return state

    async def reload(self, holder: Holder) -> int:
        """Apply the stored policies to a holder's loaded topics. Return the number of these topics."""
        await self._topics.loads_done()  # A load in progress may have read the old document
        topics = [topic for topic in self._topics.all() if holder.covers(topic.name)]
        for at in range(0, len(topics), _AT_ONCE):
            part = topics[at : at + _AT_ONCE]
            stored = await self.documents.stored_of([topic.name for topic in part])
            for topic in part:
                if topic.is_open and (policies := stored.get(topic.name.full)) is not None:
                    topic.set_policies(policies)
        return len(topics) + await self._non_persistent.reload_policies(holder.covers)
