"""The base class of all kinds of act.

The broker runs acts one after another, so `plan` and `apply` must be fast. The only exception is
the `apply` of an act with `is_long`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from broker.acts.kinds.parameters import ActInvalid, NoSubscription, read_parameters
from broker.acts.kinds.partition_choice import PARTITIONS, chosen_partitions
from broker.core.errors import BrokerError
from broker.storage.acts import acts as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.producers.internal_producer import ProducerOpener
    from broker.producers.schemas import Schemas
    from broker.storage.acts.acts import WaitingAct
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.auto_creation import TopicCreation
    from broker.topics.compaction.compactor import Compactor
    from broker.topics.ending import Endings
    from broker.topics.non_persistent.topics import NonPersistentTopics
    from broker.topics.policies import PolicyChanges
    from broker.topics.rates import Rates
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics
    from broker.topics.trimming import Trimmer
    from broker.topics.truncate import Truncator

__all__ = [
    "ActConflict",
    "ActContext",
    "ActExpired",
    "ActKind",
    "Part",
    "PartlyDone",
    "Plan",
    "Reports",
    "Scope",
    "TopicTools",
]

P = TypeVar("P")


class ActConflict(ActInvalid):
    """The act would no longer do what its plan says. `preview` is the new plan, if there is one."""

    code = "ActConflict"
    retriable = True

    def __init__(self, text: str, *, preview: Plan | None = None) -> None:
        super().__init__(text)
        self.preview = preview


class ActExpired(BrokerError):
    """The request waited too long for a broker."""

    code = "ActExpired"
    retriable = True


class PartlyDone(BrokerError):
    """An error stopped an act that had already changed something.

    `result` has the outcome on each partition, or is empty.
    """

    code = "PartlyDone"

    def __init__(self, text: str, *, result: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.result = result


class Scope(StrEnum):
    """The thing that an act changes."""

    SUBSCRIPTION = "subscription"
    TOPIC = "topic"
    NAMESPACE = "namespace"  # The act's `topic_name` is tenant/namespace
    NEW_NAMESPACE = "new namespace"
    TENANT = "tenant"  # The act's `topic_name` is tenant/*


class Reports(Protocol):
    """The broker's reports on topics and subscriptions."""

    @property
    def rates(self) -> Rates:
        """Return the rates of publishing and acking."""

    def subscription_changed(self, subscription: Subscription) -> None:
        """Put a subscription into the next report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTools:
    """Services that work on whole topics and namespaces."""

    creation: TopicCreation
    endings: Endings
    truncator: Truncator
    trimmer: Trimmer
    compactor: Compactor
    policies: PolicyChanges
    schemas: Schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class ActContext:
    """One request, and the services that acts need."""

    act: WaitingAct
    topics: Topics
    non_persistent: NonPersistentTopics
    tools: TopicTools
    opener: ProducerOpener
    reports: Reports
    pool: ConnectionPool
    clock: Clock
    undo_window_s: int
    max_message_bytes: int  # Largest uncompressed message that acts read
    max_published_bytes: int  # Largest message that acts publish

    async def topic(self) -> Topic:
        """Return the topic. Load it if necessary.

        Raises TopicNotFound or ServiceNotReady. Raises NotAllowed for a partitioned topic.
        """
        return await self.topics.open_named(self.act.topic_name)

    async def begin(self) -> None:
        """Record that the act begins its change, so that the act no longer expires.

        If this broker dies before it stores the result, the next broker applies the act again.
        """
        if self.act.progress is None:
            await self.report({})

    async def report(self, progress: Mapping[str, Any]) -> None:
        """Store the progress of the act."""
        await repeat_until_done(
            self.pool,
            lambda c: store.report(c, self.act.act_id, json.dumps(dict(progress))),
            what="reporting an act's progress",
        )

    async def subscription(self) -> Subscription:
        """Return the durable subscription. Raises NoSubscription and the errors of `topic`."""
        subscription = (await self.topic()).subscriptions.get(self.act.subscription_name)
        if subscription is None or not subscription.is_durable:
            raise NoSubscription(
                f"subscription {self.act.subscription_name} of {self.act.topic_name} does not exist"
            )
        return subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of an act on one partition."""

    partition: int
    context: ActContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The effect that an act would have."""

    shown: Mapping[str, Any] = field(default_factory=dict)
    cursor_version: int | None = None


class ActKind(ABC, Generic[P]):
    """One kind of act. Kinds have no state."""

    name: ClassVar[str]
    summary: ClassVar[str]
    scope: ClassVar[Scope] = Scope.SUBSCRIPTION
    closes_consumers: ClassVar[bool] = False
    can_undo: ClassVar[bool] = False
    no_undo: ClassVar[str] = "it cannot be undone"
    # If True, `apply` runs in parallel with other acts, so it may be slow.
    is_long: ClassVar[bool] = False
    # If False, `requests.plan` refuses acts of this kind.
    can_be_requested: ClassVar[bool] = True
    # If True, one act can change several partitions of a topic.
    takes_partitions: ClassVar[bool] = False
    # The act leaves out a partition if planning for the partition raises one of these errors.
    leaves_out: ClassVar[tuple[type[ActInvalid], ...]] = (NoSubscription,)
    parameters: type[P]
    # Names of the parameters that together make up a message.
    of_message: ClassVar[frozenset[str]] = frozenset()

    def message_of(self, given: P) -> bytes | None:
        """Return the act's message as the bytes of an entry, or None if the act has no message."""
        return None

    def read(self, raw: Mapping[str, Any]) -> P:
        """Return the checked parameters without `partitions`. Raises ActInvalid if a parameter is wrong."""
        if self.takes_partitions:
            chosen_partitions(raw)
            raw = {name: value for name, value in raw.items() if name != PARTITIONS}
        return read_parameters(self.parameters, raw)

    def why_one_partition(self, given: P) -> str:
        """Return why the act cannot take several partitions, or an empty string if it can."""
        return "" if self.takes_partitions else f"{self.name} acts on one topic"

    def message_id(self, given: P) -> str | None:
        """Return the message id that selects the act's partition, or None."""
        return None

    def other_topics(self, given: P) -> tuple[str, ...]:
        """Return the other topics to which the act publishes, according to its parameters."""
        return ()

    def other_topics_of_plan(self, planned: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the other topics to which the act publishes, according to its plan."""
        return ()

    @abstractmethod
    async def plan(self, context: ActContext, given: P) -> Plan:
        """Return what the act would do. Raises BrokerError to refuse the act."""

    @abstractmethod
    async def apply(self, context: ActContext, given: P) -> Mapping[str, Any] | None:
        """Do what the plan says. Return the result as JSON, or None if the result is already stored.

        `apply` must be safe to repeat, because a broker may die before it stores the result. A long act calls
        `context.report`. Every other act calls `context.begin` before its change, unless it stores the result together
        with the change.

        Raises BrokerError if the act fails, and PartlyDone if an error stops the act halfway.
        """

    async def apply_parts(
        self, context: ActContext, parts: Sequence[Part], given: P
    ) -> Mapping[str, Any] | None:
        """Apply the act to several partitions. Kinds with `takes_partitions` implement this method.

        Returns and raises the same as `apply`.
        """
        raise ActInvalid(self.why_one_partition(given))
