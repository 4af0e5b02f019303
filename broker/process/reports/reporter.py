"""Write in-memory state to the tables that the console shows."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import psycopg

from broker.clock import Clock
from broker.process.reports.history import History
from broker.process.reports.obstacles import departure_of
from broker.process.reports.rows import SLICE, TopicReport, report_of
from broker.process.reports.standings import Standings
from broker.process.reports.stories import Stories
from broker.storage.away import is_away
from broker.storage.cursors import cursors as cursor_store
from broker.storage.cursors import obstacles as obstacle_store
from broker.storage.cursors import sessions as store
from broker.storage.pool import ConnectionPool, first_line
from broker.storage.supervised import for_ever
from broker.topics.rates import Rates

if TYPE_CHECKING:
    from broker.core.subscription.story_rows import StoryBuffer
    from broker.producers.producer import Producer
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Reporter"]

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
_ANEW_AT_ONCE: Final = 1000  # Topics and subscriptions per report
_JUDGED_AT_ONCE: Final = 1000
_COME_BACK_MS = 60_000  # Clients of an earlier broker connect again within this time


class Reporter:
    """Collects changes and writes them once a second. Keeps the changes while the database is unavailable."""

    def __init__(self, pool: ConnectionPool, clock: Clock, story_buffer: StoryBuffer) -> None:
        self._pool = pool
        self._clock = clock
        self._topics: set[Topic] = set()
        self._subscriptions: set[Subscription] = set()
        self._anew: Iterator[tuple[Topic, Subscription | None]] = iter(())
        # Departed consumers by key, in order of departure. The value is None for a reader.
        self._gone_consumers: dict[int, obstacle_store.DepartureRow | None] = {}
        self._gone_producers: list[int] = []
        self._newest: WeakValueDictionary[int, Topic] = WeakValueDictionary()
        self._obstacles: WeakKeyDictionary[Subscription, obstacle_store.ObstaclesRow] = WeakKeyDictionary()
        self._refused: set[Topic] = set()
        self.rates = Rates()
        self.standings = Standings()
        self._started_ms = 0  # Time of `start`, or 0 if `_judge_unloaded` has nothing left to do
        self.history = History(pool, clock)
        self.stories = Stories(pool, story_buffer)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Delete the sessions and pending acks of an earlier broker, then start reporting. Raises psycopg.Error."""
        async with self._pool.use() as connection:
            await obstacle_store.broker_ended(connection)
            self._started_ms = self._clock.now_ms()
            await store.forget_all(connection, self._started_ms)
            await cursor_store.forget_pending(connection)
        await self.history.start()
        self._task = asyncio.create_task(for_ever(self._turn, what="the report"), name="reporter")

    async def stop(self) -> None:
        """Stop, and write a last report if the database is reachable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(2):
                await self.stories.write()
                await self._report()
                await self.history.finish()
        except (TimeoutError, psycopg.Error) as error:
            logger.info(
                "the last report before the stop was not written; the console may show old numbers: %s",
                str(error) or "timeout",
            )
        await self._pool.close()

    def topic_changed(self, topic: Topic) -> None:
        """Put a changed topic into the next report."""
        self._topics.add(topic)

    def subscription_changed(self, subscription: Subscription) -> None:
        """Put a changed subscription into the next report."""
        self._subscriptions.add(subscription)

    def report_anew(self, topics: Sequence[Topic]) -> None:
        """Report topics and all their subscriptions, because the tables may have lost rows."""
        self._obstacles.clear()
        self._anew = _with_subscriptions(topics)

    def consumer_gone(self, subscription: Subscription, consumer: Consumer) -> None:
        """Delete the consumer's rows with the next report."""
        self._gone_consumers[consumer.key] = (
            departure_of(subscription, consumer, self._clock.now_ms()) if subscription.is_durable else None
        )
        self.subscription_changed(subscription)

    def producer_gone(self, topic: Topic, producer: Producer) -> None:
        """Delete the producer's row with the next report."""
        self._gone_producers.append(producer.key)
        self.topic_changed(topic)

    async def _turn(self) -> None:
        await asyncio.sleep(INTERVAL_S)
        # Write the stories first, because the report tells pages to read them.
        await self.stories.write()
        await self._report()
        await self.history.write()
        await self._judge_unloaded()

    async def _report(self) -> None:
        for topic, subscription in islice(self._anew, _ANEW_AT_ONCE):
            if subscription is None:
                self._topics.add(topic)
            else:
                self._subscriptions.add(subscription)
        topics, self._topics = self._topics, set()
        subscriptions, self._subscriptions = self._subscriptions, set()
        gone_consumers, self._gone_consumers = self._gone_consumers, {}
        gone_producers, self._gone_producers = self._gone_producers, []
        self.history.note(topics, subscriptions)
        try:
            # Report a rate until it has fallen to 0, even if nothing else changes.
            moving = self.rates.moving(self._clock.now_ms())
            topics |= moving.topics
            subscriptions |= moving.subscriptions
            subscriptions |= await self.standings.look(topics, subscriptions, self._clock.now_ms())
            if not (topics or subscriptions or gone_consumers or gone_producers):
                return
            await self._write(await self._reports(topics, subscriptions), gone_consumers, gone_producers)
        except BaseException:
            self._topics |= topics
            self._subscriptions |= subscriptions
            self._gone_consumers = gone_consumers | self._gone_consumers
            self._gone_producers += gone_producers
            raise

    async def _judge_unloaded(self) -> None:
        """If no client has used a subscription since `start`, mark the subscription as stuck or idle.

        A paused subscription stays paused. For the first `_COME_BACK_MS`, unused subscriptions keep the states that an
        earlier broker stored.
        """
        now_ms = self._clock.now_ms()
        if not self._started_ms or now_ms - self._started_ms < _COME_BACK_MS:
            return
        try:
            async with self._pool.use() as connection:
                judged = await store.judge_unloaded(
                    connection, before_ms=self._started_ms, now_ms=now_ms, limit=_JUDGED_AT_ONCE
                )
            if judged < _JUDGED_AT_ONCE:
                self._started_ms = 0
        except psycopg.Error as error:
            if is_away(error):
                raise
            # Do not retry, because the database is likely to refuse the statement again.
            self._started_ms = 0
            logger.error(
                "the database refused to judge the subscriptions of an earlier broker; each keeps its state until a"
                " client uses it: %s",
                first_line(error),
            )

    async def _reports(self, topics: set[Topic], subscriptions: set[Subscription]) -> list[TopicReport]:
        for topic in topics:
            known = self._newest.get(topic.topic_id)
            if not topic.is_fenced and (known is None or known.owner_epoch <= topic.owner_epoch):
                self._newest[topic.topic_id] = topic
        changed: dict[Topic, list[Subscription]] = {
            each: [] for each in topics if self._newest.get(each.topic_id) is each and not each.is_fenced
        }
        for subscription in subscriptions:
            found = self._newest.get(subscription.log.topic_id)
            if found is not None and found.log is subscription.log and not found.is_fenced:
                changed.setdefault(found, []).append(subscription)
            elif subscription.log.is_open and (
                found is None or found.owner_epoch < subscription.log.owner_epoch
            ):
                # The subscription's topic is still loading. Try again with the next report.
                self._subscriptions.add(subscription)
        now_ms = self._clock.now_ms()
        reports = []
        done = 0
        for topic, its_changed in changed.items():
            done += 1 + len(its_changed)
            if done >= SLICE:
                done = 0
                await asyncio.sleep(0)
            try:
                reports.append(await report_of(topic, its_changed, self.rates, self.standings, now_ms))
            except Exception:
                logger.exception(
                    "a topic's report failed and is left out; its next change reports it again: %s",
                    topic.name,
                )
        return reports

    async def _write(
        self,
        reports: Sequence[TopicReport],
        gone_consumers: Mapping[int, obstacle_store.DepartureRow | None],
        gone_producers: list[int],
    ) -> None:
        try:
            await self._store(reports, gone_consumers, gone_producers)
        except Exception as error:
            if is_away(error):
                raise
            if reports and (gone_consumers or gone_producers):
                await self._write((), gone_consumers, gone_producers)
                await self._write(reports, {}, [])
            elif len(reports) > 1:
                half = len(reports) // 2
                await self._write(reports[:half], {}, [])
                await self._write(reports[half:], {}, [])
            else:
                self._say_refused(reports, error)
        else:
            self._refused.difference_update(each.topic for each in reports)

    def _say_refused(self, reports: Sequence[TopicReport], error: Exception) -> None:
        self._refused = {each for each in self._refused if each.is_open}
        if isinstance(error, psycopg.errors.ForeignKeyViolation):
            logger.info(
                "a report named something that was just deleted; the next report leaves it out (%s)",
                first_line(error),
            )
            return
        for each in reports:
            if each.topic not in self._refused:  # Log once, not every second
                logger.error(
                    "the database refused a topic's report; its next change reports it again: %s: %s",
                    each.topic.name,
                    first_line(error),
                )
                self._refused.add(each.topic)
        if not reports:
            logger.error(
                "the database refused to delete the sessions of clients that left: %s", first_line(error)
            )

    async def _store(
        self,
        reports: Sequence[TopicReport],
        gone_consumers: Mapping[int, obstacle_store.DepartureRow | None],
        gone_producers: list[int],
    ) -> None:
        consumers = [row for each in reports for row in each.consumers]
        subscriptions = [row for each in reports for row in each.subscriptions]
        obstacles = {
            subscription: row
            for each in reports
            for subscription, row in each.obstacles.items()
            if self._obstacles.get(subscription) != row
        }
        departures = {row.subscription_id: row for row in gone_consumers.values() if row is not None}
        async with self._pool.use() as connection:
            await store.upsert_producers(connection, [row for each in reports for row in each.producers])
            await store.upsert_consumers(connection, consumers)
            if gone_consumers or gone_producers:
                await store.delete_sessions(
                    connection, consumers=list(gone_consumers), producers=gone_producers
                )
            await cursor_store.replace_pending(
                connection,
                consumer_keys=[row.key for row in consumers] + list(gone_consumers),
                rows=[row for each in reports for row in each.pending],
            )
            # Write the published counts first, so that no page shows more acked messages than published messages.
            await store.upsert_topic_summaries(connection, [each.row for each in reports])
            await store.upsert_subscription_summaries(connection, subscriptions)
            await obstacle_store.upsert_obstacles(connection, list(obstacles.values()))
            self._obstacles.update(obstacles)
            await obstacle_store.upsert_departures(connection, list(departures.values()))
            keys = [f"topic:{each.row.topic_id}" for each in reports]
            keys += [f"sub:{row.subscription_id}" for row in subscriptions]
            await store.notify_pages(
                connection, [json.dumps(keys[at : at + 200]) for at in range(0, len(keys), 200)]
            )


def _with_subscriptions(topics: Sequence[Topic]) -> Iterator[tuple[Topic, Subscription | None]]:
    for topic in topics:
        yield topic, None
        for subscription in list(topic.subscriptions.values()):
            yield topic, subscription
