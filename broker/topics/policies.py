"""Reading and changing what is set on a namespace or a topic; a change is in force at once on every loaded topic."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError, NotAllowed, TopicNotFound
from broker.core.policies import FIELDS, Policies, PolicyInvalid, PolicyLevel, PolicyValue, checked
from broker.core.topic_name import TopicName, parse_namespace
from broker.storage.pool import repeat_until_done
from broker.storage.topics import policies as store
from broker.storage.topics import topics as topic_store
from broker.topics.policies_in_force import effective_policies

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.process.broker import Broker
    from broker.storage.pool import ConnectionPool

__all__ = [
    "Difference",
    "Holder",
    "PolicyConflict",
    "PolicyState",
    "change",
    "changed",
    "check_names",
    "differences",
    "in_force_with",
    "overridden",
    "parsed",
    "read",
    "reload_policies",
]

log = logging.getLogger(__name__)


class PolicyConflict(BrokerError):
    """Somebody changed the document meanwhile: plan again."""

    code = "MetadataError"
    retriable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A namespace or a topic, as what policies hang on."""

    level: PolicyLevel
    tenant: str
    namespace: str
    topic: TopicName | None  # None: the namespace itself

    @classmethod
    def of_namespace(cls, text: str) -> Holder:
        """`tenant/namespace`. Raises InvalidTopicName."""
        tenant, namespace = parse_namespace(text)
        return cls(level=PolicyLevel.NAMESPACE, tenant=tenant, namespace=namespace, topic=None)

    @classmethod
    def of_topic(cls, name: TopicName) -> Holder:
        """A topic, partitioned or not."""
        return cls(level=PolicyLevel.TOPIC, tenant=name.tenant, namespace=name.namespace, topic=name)

    @property
    def name(self) -> str:
        """As people write it."""
        return f"{self.tenant}/{self.namespace}" if self.topic is None else self.topic.full

    def covers(self, name: TopicName) -> bool:
        """Whether a topic has its policies from here."""
        if self.topic is None:
            return (name.tenant, name.namespace) == (self.tenant, self.namespace)
        return self.topic.full in (name.full, name.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """What is set on a holder and what is in force there."""

    row_id: int
    document: Mapping[str, object]  # what is set here, as stored
    above: Mapping[str, object]  # of a topic: what its namespace sets
    in_force: Policies


async def read(pool: ConnectionPool, settings: BrokerSettings, holder: Holder) -> PolicyState:
    """Raises TopicNotFound when there is no such topic or namespace, NotAllowed for a partition of one."""
    topic = holder.topic
    if topic is None:
        stored = await repeat_until_done(
            pool,
            lambda c: store.of_namespace(c, holder.tenant, holder.namespace),
            what="reading policies",
        )
    else:
        await _require_no_partition(pool, topic)
        stored = await repeat_until_done(pool, lambda c: store.of_topic(c, topic), what="reading policies")
    if stored is None:
        raise TopicNotFound(f"there is no {holder.level} {holder.name}")
    return PolicyState(
        row_id=stored.row_id,
        document=stored.document,
        above=stored.above,
        in_force=in_force_with(settings, holder, stored.document, stored.above),
    )


async def _require_no_partition(pool: ConnectionPool, topic: TopicName) -> None:
    if topic.partition is None:
        return
    base = TopicName.parse(topic.base)
    parent = await repeat_until_done(pool, lambda c: topic_store.find_topic(c, base), what="finding a topic")
    if parent is not None and parent.partitions:
        raise NotAllowed(f"{topic} follows {base}: set policies there")


def in_force_with(
    settings: BrokerSettings, holder: Holder, document: Mapping[str, object], above: Mapping[str, object]
) -> Policies:
    """What would be in force on a holder with this document; `above`: its namespace's, for a topic."""
    namespace, topic = (document, {}) if holder.topic is None else (above, document)
    return effective_policies(settings, namespace, topic, where=holder.name)


def parsed(texts: Mapping[str, str], level: PolicyLevel) -> dict[str, PolicyValue]:
    """Values written as text. Raises PolicyInvalid for the first that is wrong."""
    values = {name: FIELDS[name].parse(text) if name in FIELDS else text for name, text in texts.items()}
    return checked(values, level)


def check_names(names: Iterable[str], level: PolicyLevel) -> None:
    """Raises PolicyInvalid for the first that is no policy."""
    for name in names:
        if name not in FIELDS:
            checked({name: None}, level)  # names those there are


def changed(
    state: PolicyState, level: PolicyLevel, *, to_set: Mapping[str, object], to_unset: tuple[str, ...]
) -> dict[str, object]:
    """The document as it would be. Raises PolicyInvalid for unknown names and bad values; changes nothing."""
    check_names(to_unset, level)
    for name in to_unset:
        if name not in state.document:
            raise PolicyInvalid(f"policy {name} is not set here")
        if name in to_set:
            raise PolicyInvalid(f"policy {name} is both to be set and unset")
    kept = {name: value for name, value in state.document.items() if name not in to_unset}
    return {**kept, **checked(to_set, level)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One policy in force, before and after."""

    name: str
    before: PolicyValue
    after: PolicyValue


def differences(before: Policies, after: Policies) -> list[Difference]:
    """What changes of what is in force."""
    old, new = asdict(before), asdict(after)
    return [
        Difference(name=name, before=old[name], after=new[name]) for name in old if old[name] != new[name]
    ]


async def change(
    broker: Broker, holder: Holder, *, before: Mapping[str, object], after: Mapping[str, object]
) -> PolicyState:
    """Replace the document `before` by `after` and put it in force. Safe to repeat.

    Raises PolicyConflict when the document is neither any more; nothing is changed then.
    """
    pool = broker.services.pool
    state = await read(pool, broker.settings, holder)
    if dict(state.document) != dict(after):
        stored = await repeat_until_done(
            pool,
            lambda c: store.change(
                c, is_topic=holder.topic is not None, row_id=state.row_id, before=before, after=after
            ),
            what="changing policies",
        )
        # Repeated after a lost answer it finds `after` instead of `before`: then it was done.
        state = await read(pool, broker.settings, holder)
        if not stored and dict(state.document) != dict(after):
            raise PolicyConflict(
                f"somebody changed the policies of {holder.name} after this plan; plan again"
            )
        log.info("policies of %s changed: %s", holder.name, dict(after))
    await reload_policies(broker, holder)
    return state


async def reload_policies(broker: Broker, holder: Holder) -> int:
    """Put what is stored in force on the loaded topics below a holder; how many there are."""
    await broker.loads_done()  # a topic being loaded may have read the old document
    topics = [topic for topic in broker.topics.values() if holder.covers(topic.name)]
    names = [topic.name.full for topic in topics]
    rows = await repeat_until_done(
        broker.services.pool, lambda c: store.in_force(c, names), what="reading policies"
    )
    stored = {name: (namespace, topic) for name, namespace, topic in rows}
    for topic in topics:
        if topic.is_open and topic.name.full in stored:
            namespace, own = stored[topic.name.full]
            topic.set_policies(effective_policies(broker.settings, namespace, own, where=topic.name.full))
    return len(topics) + await broker.non_persistent.reload_policies(holder.covers)


async def overridden(pool: ConnectionPool, state: PolicyState, names: list[str]) -> dict[str, int]:
    """Policy → how many topics of a namespace set it themselves, and so keep theirs."""
    return await repeat_until_done(
        pool, lambda c: store.overriding(c, state.row_id, names), what="counting topics"
    )
