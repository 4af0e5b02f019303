"""The base class of all kinds of act: a name, parameters, a plan, and an apply that does what the plan said.

A kind has no state; the context has the services that it needs. The broker runs one act at a time, so `plan` and
`apply` must be fast; kinds with `is_long` are applied in parallel with other acts. To add a kind, write a class in one
of the packages beside this file and add its line to registry.py.
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
    """The act would no longer do what its plan says. `preview` is the new plan; None = plan the act again."""

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
    """An error stopped an act that had already changed something, for example some of its partitions.

    `result` has the outcome on each partition, or is empty. The text says how to complete the act.
    """

    code = "PartlyDone"

    def __init__(self, text: str, *, result: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.result = result


class Scope(StrEnum):
    """The thing that an act changes.

    The request names it. It must exist when the act is planned, unless a comment below says otherwise.
    """

    SUBSCRIPTION = "subscription"
    # May be partitioned. The kind itself handles the partitions, unless it has `takes_partitions`.
    TOPIC = "topic"
    NAMESPACE = "namespace"  # `topic_name` is tenant/namespace
    NEW_NAMESPACE = "new namespace"  # as NAMESPACE, but the act creates it
    TENANT = "tenant"  # `topic_name` is tenant/*; the tenant may not exist yet


class Reports(Protocol):
    """The reports that acts need, on topics and subscriptions."""

    @property
    def rates(self) -> Rates:
        """Return the rates of publishing and acking."""

    def subscription_changed(self, subscription: Subscription) -> None:
        """Put this subscription into the next report."""


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
    """One request, and the services that kinds need to carry it out."""

    act: WaitingAct
    topics: Topics
    non_persistent: NonPersistentTopics
    tools: TopicTools
    opener: ProducerOpener  # for acts that publish
    reports: Reports
    pool: ConnectionPool
    clock: Clock
    undo_window_s: int
    max_message_bytes: int  # limit on the uncompressed size of a message that is read
    max_published_bytes: int  # limit on the size of a message that is published

    async def topic(self) -> Topic:
        """Return the topic, loaded if necessary.

        Raises TopicNotFound, ServiceNotReady, and NotAllowed for a partitioned topic.
        """
        return await self.topics.open_named(self.act.topic_name)

    async def report(self, progress: Mapping[str, Any]) -> None:
        """Store the progress of the work, for users and for a broker that continues it."""
        await repeat_until_done(
            self.pool,
            lambda c: store.report(c, self.act.act_id, json.dumps(dict(progress))),
            what="reporting an act's progress",
        )

    async def subscription(self) -> Subscription:
        """Return the durable subscription, loaded if necessary. Raises NoSubscription, and the errors of `topic`."""
        subscription = (await self.topic()).subscriptions.get(self.act.subscription_name)
        if subscription is None or not subscription.is_durable:
            raise NoSubscription(
                f"subscription {self.act.subscription_name} of {self.act.topic_name} does not exist"
            )
        return subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition of an act on several partitions. The act in `context` has this partition's topic and plan."""

    partition: int
    context: ActContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The effect that an act would have, as the requester sees it."""

    shown: Mapping[str, Any] = field(default_factory=dict)  # JSON; kept, and given to apply as `act.plan`
    cursor_version: int | None = None  # apply is refused if the cursor was moved after this version


class ActKind(ABC, Generic[P]):
    """One kind of act."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one to three sentences for users
    scope: ClassVar[Scope] = Scope.SUBSCRIPTION
    closes_consumers: ClassVar[bool] = False
    can_undo: ClassVar[bool] = False
    # For users, if can_undo is False: why the act cannot be undone, or what to do instead.
    no_undo: ClassVar[str] = "it cannot be undone"
    # True: `apply` may take longer than milliseconds, so it runs in parallel with other acts.
    is_long: ClassVar[bool] = False
    # False: `requests.plan` refuses acts of this kind. The broker, a client, the admin API or `plan_undo` creates them.
    can_be_requested: ClassVar[bool] = True
    # True: on a partitioned topic, one act covers all partitions, or those that the parameter `partitions` names.
    takes_partitions: ClassVar[bool] = False
    # If planning raises one of these errors on a partition, an act on several partitions leaves this partition out.
    leaves_out: ClassVar[tuple[type[ActInvalid], ...]] = (NoSubscription,)
    parameters: type[P]
    # Parameters that make up a message. Until it is published, the act stores them apart from its other parameters.
    of_message: ClassVar[frozenset[str]] = frozenset()

    def message_of(self, given: P) -> bytes | None:
        """Return the message in the parameters `of_message` as an entry; None if the kind has no such parameters."""
        return None

    def read(self, raw: Mapping[str, Any]) -> P:
        """Check the parameters and return them, without `partitions`. Raises ActInvalid if one is wrong."""
        if self.takes_partitions:
            chosen_partitions(raw)
            raw = {name: value for name, value in raw.items() if name != PARTITIONS}
        return read_parameters(self.parameters, raw)

    def why_one_partition(self, given: P) -> str:
        """Return why these parameters make sense only on one partition; empty if they make sense on several."""
        return "" if self.takes_partitions else f"{self.name} acts on one topic"

    def message_id(self, given: P) -> str | None:
        """Return the id of a message if the act concerns only the partition that has this message, else None."""
        return None

    def other_topics(self, given: P) -> tuple[str, ...]:
        """Return the topics that the act publishes to besides its own topic, as far as its parameters name them."""
        return ()

    def other_topics_of_plan(self, planned: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the topics that the act publishes to besides its own topic, as its plan shows them."""
        return ()

    @abstractmethod
    async def plan(self, context: ActContext, given: P) -> Plan:
        """Return what the act would do, and change nothing.

        Raises BrokerError, with a message for the user, to refuse the act.
        """

    @abstractmethod
    async def apply(self, context: ActContext, given: P) -> Mapping[str, Any] | None:
        """Do what the plan says. Return the result as JSON, or None if it was stored together with the change.

        If the broker dies before a returned result is stored, the next broker may call `apply` again. So `apply` must
        be safe to repeat.

        Raises BrokerError if the act is refused or fails, and PartlyDone if it stopped halfway. Long work calls
        `context.report`, and finds the report of an earlier broker in `act.progress`.
        """

    async def apply_parts(
        self, context: ActContext, parts: Sequence[Part], given: P
    ) -> Mapping[str, Any] | None:
        """Apply the act on several partitions, each with its own part of the plan. For kinds with `takes_partitions`.

        Return and raise the same as `apply`. Raises PartlyDone if an error came after some partitions were changed.
        """
        raise ActInvalid(self.why_one_partition(given))
