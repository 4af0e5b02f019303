"""Find, create and forget the subscriptions of one topic.

A reader uses a non-durable subscription. A bookmark is a named position in a topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Protocol, TypeVar

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.state import CursorState
from broker.core.errors import NotAllowed, ServiceNotReady, TopicFenced
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.log.delayed import DELAYING
from broker.storage.cursors import cursors as store
from broker.storage.pool import repeat_until_done
from broker.subscription.admission import require_new_subscription
from broker.subscription.subscription import SubscriptionTopic

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.deadlines import Deadlines
    from broker.storage.connection import Connection
    from broker.storage.pool import ConnectionPool
    from broker.subscription.requests import SubscribeRequest
    from broker.subscription.subscription import Subscription
    from broker.tasks import BackgroundTasks

__all__ = ["NewSubscription", "SubscribedTopic", "SubscriptionReports", "TopicSubscriptions"]

T = TypeVar("T")


class SubscribedTopic(SubscriptionTopic, Protocol):
    """The part of a topic that `TopicSubscriptions` uses."""

    async def write(
        self, call: Callable[[Connection, int], Awaitable[T | None]], *, what: str
    ) -> T | None: ...


class NewSubscription(Protocol):
    """A function that makes a `Subscription`."""

    def __call__(
        self,
        *,
        subscription_id: int | None,
        name: str,
        type_: SubscriptionType,
        cursor: Cursor,
        topic: SubscriptionTopic,
    ) -> Subscription: ...


class SubscriptionReports(Protocol):
    """Reports changes of subscriptions to the console, through PostgreSQL."""

    def subscription_changed(self, subscription: Subscription) -> None:
        """Put this subscription into the next report."""


class TopicSubscriptions(Mapping[str, "Subscription"]):
    """One topic's subscriptions, by name. Use this mapping only from the event loop."""

    def __init__(
        self,
        topic: SubscribedTopic,
        new_subscription: NewSubscription,
        *,
        pool: ConnectionPool,
        clock: Clock,
        deadlines: Deadlines,
        tasks: BackgroundTasks,
        reports: SubscriptionReports,
    ) -> None:
        self._topic = topic
        self._new_subscription = new_subscription
        self._pool = pool
        self._clock = clock
        self._deadlines = deadlines
        self._tasks = tasks
        self._reports = reports
        self._by_name: dict[str, Subscription] = {}
        # Held while a subscription or a bookmark is created, and while ledgers are trimmed.
        self.creating = asyncio.Lock()

    def __getitem__(self, name: str) -> Subscription:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def values(self) -> ValuesView[Subscription]:
        """Return the subscriptions. This method runs for every stored batch, and the inherited method is slower."""
        return self._by_name.values()

    async def of_request(self, request: SubscribeRequest) -> Subscription:
        """Find the requested subscription, or create it if the policies allow that.

        Raises NotAllowed, SubscriptionNotFound, TopicFenced, ServiceNotReady, PersistenceFailed and psycopg.Error.
        """
        if not request.durable:
            return await self._of_reader(request)
        start = EARLIEST if request.earliest else LATEST
        if request.rollback_s:
            start = await self._rolled_back(request.rollback_s)
        return await self.find_or_create(
            request.subscription,
            request.type,
            start,
            dict(request.subscription_properties),
            by_attaching=True,
        )

    async def find_or_create(
        self,
        name: str,
        type_: SubscriptionType,
        start: Position,
        properties: dict[str, str],
        *,
        by_attaching: bool = False,
        remaining: int | None = None,
        begins_at: Position | None = None,
    ) -> Subscription:
        """Return the durable subscription of this name, or create it.

        A new subscription begins at `start`. But a consumer that reads the compacted topic begins at `begins_at` (by
        default, `start`), because compaction may have kept entries there that the log has trimmed.

        Cancelling this call does not stop the creation.

        Raises SubscriptionNotFound if `by_attaching` is True and the policies forbid automatic creation. Raises
        NotAllowed if a reader uses the name, or if the topic has reached its maximum number of durable subscriptions.
        Also raises TopicFenced, ServiceNotReady, PersistenceFailed and psycopg.Error.
        """
        return await self._tasks.finish(
            self._find_or_create(name, type_, start, properties, by_attaching, remaining, begins_at)
        )

    async def _find_or_create(
        self,
        name: str,
        type_: SubscriptionType,
        start: Position,
        properties: dict[str, str],
        by_attaching: bool,
        remaining: int | None,
        begins_at: Position | None,
    ) -> Subscription:
        topic, log = self._topic, self._topic.log
        async with self.creating:
            known = self._by_name.get(name)
            if known is not None:
                if not known.is_durable:
                    raise NotAllowed(
                        f"subscription {name} of {log.name} belongs to a reader; choose another name"
                    )
                return known
            require_new_subscription(
                topic.policies,
                log.name,
                name,
                durable=sum(1 for each in self._by_name.values() if each.is_durable),
                by_attaching=by_attaching,
            )
            state = await self.cursor_starting_at(start, remaining)
            subscription_id = await topic.write(
                lambda connection, epoch: store.create_subscription(
                    connection,
                    topic_id=log.topic_id,
                    owner_epoch=epoch,
                    name=name,
                    type_name=type_.value,
                    properties=properties,
                    state=state,
                ),
                what="creating a subscription",
            )
            if subscription_id is None:
                raise TopicFenced(f"{log.name} moved to another broker; connect again")
            if not subscription_id:
                subscription_id, state = await self._stored(name)
            # Entries may have been appended during the write. A subscription that begins at LATEST gets these entries.
            subscription = self.add(subscription_id, name, type_, Cursor(log.ledgers, log.index, state))
            subscription.begin_at(start if begins_at is None else begins_at)
            return subscription

    async def cursor_starting_at(self, start: Position, remaining: int | None = None) -> CursorState:
        """Return the state of a new cursor that begins at `start`.

        If no entry is stored at `start`, the cursor begins at the next stored entry. `remaining` is the bitset of the
        unacked messages in the entry at `start`. If `remaining` is None, all messages in the entry are unacked.
        """
        log = self._topic.log
        while True:
            try:
                return Cursor.starting_at(log.ledgers, log.index, start, remaining).snapshot()
            except IndexMissing as missing:
                await self._topic.reader.load_index(missing.ranges)

    async def _stored(self, name: str) -> tuple[int, CursorState]:
        """Return the id and the cursor that an earlier attempt stored."""
        rows = await repeat_until_done(
            self._pool,
            lambda c: store.subscriptions_of(c, self._topic.log.topic_id),
            what="looking for a subscription",
        )
        for row in rows:
            if row.name == name:
                return row.subscription_id, row.cursor
        raise ServiceNotReady(f"subscription {name} was removed while it was being created; subscribe again")

    async def _of_reader(self, request: SubscribeRequest) -> Subscription:
        log = self._topic.log
        if (known := self._reader_named(request.subscription)) is not None:
            return known
        start = LATEST if request.start is None else request.start
        if request.rollback_s:
            start = await self._rolled_back(request.rollback_s)
        async with self.creating:
            if (known := self._reader_named(request.subscription)) is not None:
                return known
            state = await self.cursor_starting_at(start, request.start_remaining)
            reader = self.add(None, request.subscription, request.type, Cursor(log.ledgers, log.index, state))
            reader.begin_at(start)
            return reader

    def _reader_named(self, name: str) -> Subscription | None:
        known = self._by_name.get(name)
        if known is not None and known.is_durable:
            raise NotAllowed(
                f"subscription {name} of {self._topic.log.name} is durable; choose another name for a reader"
            )
        return known

    async def _rolled_back(self, rollback_s: int) -> Position:
        return await self._topic.reader.position_at_time(self._clock.now_ms() - rollback_s * 1000)

    def add(
        self, subscription_id: int | None, name: str, type_: SubscriptionType, cursor: Cursor
    ) -> Subscription:
        """Add a subscription to memory. `subscription_id` is None for a reader."""
        subscription = self._new_subscription(
            subscription_id=subscription_id, name=name, type_=type_, cursor=cursor, topic=self._topic
        )
        self._by_name[name] = subscription
        subscription.rates_changed()
        self._reports.subscription_changed(subscription)
        return subscription

    def settle_reader(self, subscription: Subscription) -> bool:
        """Keep a reader's subscription if it has consumers, otherwise forget it.

        Call this after every attempt to attach a consumer. Returns False if another subscription took the name during
        the attempt.
        """
        if subscription.is_durable:
            return True
        if subscription.consumers:
            return self._by_name.setdefault(subscription.name, subscription) is subscription
        self.forget(subscription)
        return True

    def forget(self, subscription: Subscription) -> None:
        """Forget a deleted subscription, or a reader's subscription without consumers."""
        if self._by_name.get(subscription.name) is subscription:
            del self._by_name[subscription.name]
        self._deadlines.forget(subscription)
        if subscription.is_durable:
            # The topic's report may still show this subscription's backlog or state.
            self._reports.subscription_changed(subscription)

    def replay(self, positions: Sequence[Position]) -> None:
        """Deliver delayed entries that are now due."""
        for subscription in list(self._by_name.values()):
            if subscription.type in DELAYING:
                subscription.replay(positions)

    def has_room_for_replays(self) -> bool:
        """Return whether more entries may be passed to `replay`."""
        waiting = [
            each.dispatcher.replay_entries
            for each in self._by_name.values()
            if each.type is SubscriptionType.SHARED and each.dispatcher.can_send()
        ]
        return not waiting or min(waiting) == 0
