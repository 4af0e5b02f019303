"""What a kind of act is: a name, parameters, a plan, and an apply that does what the plan said.

A kind is stateless; what it needs comes in the context. It runs in the topic's owner, one act at a time, and takes
milliseconds. To add one: a class here beside the others, and its line in registry.py.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, read_parameters
from broker.storage.acts import acts as store
from broker.storage.pool import repeat_until_done

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.producers.internal_producer import ProducerOpener
    from broker.storage.acts.acts import WaitingAct
    from broker.storage.pool import ConnectionPool
    from broker.subscription.subscription import Subscription
    from broker.topics.auto_creation import TopicCreation
    from broker.topics.ending import Endings
    from broker.topics.policies import PolicyChanges
    from broker.topics.rates import Rates
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics
    from broker.topics.trimming import Trimmer
    from broker.topics.truncate import Truncator

__all__ = ["ActConflict", "ActContext", "ActKind", "Plan", "Reports", "Scope", "TopicTools"]

P = TypeVar("P")


class ActConflict(ActInvalid):
    """What was planned is not what would happen any more: plan again.

    With a `preview` the act has been planned again already, to the same target.
    """

    code = "ActConflict"
    retriable = True

    def __init__(self, text: str, *, preview: Plan | None = None) -> None:
        super().__init__(text)
        self.preview = preview


class Scope(StrEnum):
    """What an act is about; the request must name it, and it must exist when a plan is asked for."""

    SUBSCRIPTION = "subscription"
    TOPIC = "topic"  # a partitioned one too: its partitions are the kind's own affair
    NAMESPACE = "namespace"  # `topic_name` holds tenant/namespace


class Reports(Protocol):
    """What is reported of topics and subscriptions, as acts need it."""

    @property
    def rates(self) -> Rates:
        """Of what is published and acked."""

    def changed(self, subscription: Subscription) -> None:
        """Report this subscription anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTools:
    """What acts on whole topics and namespaces are carried out with."""

    creation: TopicCreation
    endings: Endings
    truncator: Truncator
    trimmer: Trimmer
    policies: PolicyChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class ActContext:
    """One request, and what kinds carry it out with."""

    act: WaitingAct
    topics: Topics
    tools: TopicTools
    opener: ProducerOpener  # a redrive publishes
    reports: Reports
    pool: ConnectionPool
    clock: Clock
    undo_window_s: int
    max_message_bytes: int  # uncompressed, of one that is read

    async def topic(self) -> Topic:
        """The topic in memory, loaded when need be. Raises TopicNotFound, NotAllowed for a partitioned parent."""
        return await self.topics.open_named(self.act.topic_name)

    async def report(self, progress: Mapping[str, Any]) -> None:
        """How far long work is; kept in the act, for people and for a broker that goes on with it."""
        await repeat_until_done(
            self.pool,
            lambda c: store.report(c, self.act.act_id, json.dumps(dict(progress))),
            what="reporting an act's progress",
        )

    async def subscription(self) -> Subscription:
        """The durable subscription in memory. Raises NothingToActOn when it is gone."""
        subscription = (await self.topic()).subscriptions.get(self.act.subscription_name)
        if subscription is None or not subscription.is_durable:
            raise NothingToActOn(
                f"subscription {self.act.subscription_name} of {self.act.topic_name} does not exist"
            )
        return subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an act would do, as the requester sees it."""

    shown: Mapping[str, Any] = field(default_factory=dict)  # JSON; kept, and given to apply as `act.plan`
    cursor_version: int | None = None  # apply is refused when the cursor was moved since


class ActKind(ABC, Generic[P]):
    """One kind of act."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence for people
    scope: ClassVar[Scope] = Scope.SUBSCRIPTION
    closes_consumers: ClassVar[bool] = False
    can_undo: ClassVar[bool] = False
    is_long: ClassVar[bool] = False  # apply may take longer than milliseconds: it runs beside other acts
    is_asked_for: ClassVar[bool] = (
        True  # False: made by the broker or another way in, never by a plain request
    )
    parameters: type[P]

    def read(self, raw: Mapping[str, Any]) -> P:
        """The parameters, checked. Raises ActInvalid."""
        return read_parameters(self.parameters, raw)

    @abstractmethod
    async def plan(self, context: ActContext, given: P) -> Plan:
        """What it would do. Changes nothing. Raises BrokerError: the act is refused with its text."""

    @abstractmethod
    async def apply(self, context: ActContext, given: P) -> Mapping[str, Any] | None:
        """Do it; the result as JSON, or None when it was stored together with the change.

        A kind that returns its result is applied again when the broker dies before that is stored: it must be safe to
        repeat. Raises BrokerError when it is refused; nothing is changed then. Long work calls `context.report`, finds
        in `act.progress` what an earlier broker reported, and may have changed something when it raises.
        """
