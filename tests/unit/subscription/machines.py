"""A subscription's machine over a log in memory, driven by the test instead of a runner."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.cursor.cursor import Cursor
from broker.core.dispatchers.base import DispatchConsumer
from broker.core.dispatchers.choice import DispatchOptions, dispatcher_for
from broker.core.entry import FLAG_BATCH, StoredEntry
from broker.core.position import EARLIEST, Position
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.story import DeliveryStory
from broker.core.subscription.story_rows import StoryBuffer
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.plugins import EntryFilter
from broker.subscription.machine.effects import Effect, Effects
from broker.subscription.machine.machine import SubscriptionMachine
from broker.subscription.machine.state import Member, State
from broker.subscription.requests import AckRequest, SubscribeRequest
from tests.unit.core.logs import Log

SHARED, EXCLUSIVE, FAILOVER = (
    SubscriptionType.SHARED,
    SubscriptionType.EXCLUSIVE,
    SubscriptionType.FAILOVER,
)
START_MS = 1_000_000
FILTER_DELAY_MS = 500
FAILOVER_DELAY_MS = 1000


class NothingDelayed:
    """A topic without delayed messages."""

    def passes_over(self, type_: SubscriptionType) -> bool:
        """Return False: no entry is skipped."""
        return False

    def next_ready(self, cursor: Cursor, position: Position) -> Position:
        """Return the next entry that is not acked."""
        return cursor.next_unacked(position)

    def is_early(self, entry: StoredEntry, type_: SubscriptionType, now_ms: int) -> bool:
        """Return False: every entry is due."""
        return False


class NotCompacted:
    """A topic that is not compacted, unless a test gives it a horizon."""

    horizon: Position | None = None


class Machine:
    """A machine with its log and its time. `sent` has the entries that it sent to each consumer."""

    def __init__(
        self,
        type_: SubscriptionType = SHARED,
        *,
        is_durable: bool = True,
        indexed: bool = True,
        filters: Sequence[EntryFilter] = (),
    ) -> None:
        self.log = Log(indexed=indexed)
        self.cached: dict[int, dict[int, StoredEntry]] = {}
        self.now_ms = START_MS
        self.sent: dict[int, list[Position]] = {}
        self.compacted = NotCompacted()
        counts = RedeliveryCounts()
        self.buffer = StoryBuffer()
        self.story = DeliveryStory(self.buffer, 1 if is_durable else None)
        self.state = State(
            name="s",
            is_durable=is_durable,
            type_=type_,
            cursor=Cursor.starting_at(self.log.ledgers, self.log.index, EARLIEST),
            dispatcher=dispatcher_for(
                type_, DispatchOptions(failover_delay_ms=FAILOVER_DELAY_MS, counts=counts)
            ),
            counts=counts,
            story=self.story,
            compacted=self.compacted,
            is_terminated=False,
            now_ms=self.now_ms,
        )
        self.machine = SubscriptionMachine(
            self.state,
            topic_name="t",
            ledgers=self.log.ledgers,
            cached=self.cached,
            delayed=NothingDelayed(),
            compacted=self.compacted,
            read_entries=1000,
            filters=filters,
            filter_delay_ms=FILTER_DELAY_MS,
            batch_index_acks=True,
        )

    def publish(self, *sizes: int, cached: bool = True) -> list[Position]:
        """Store entries of this many messages each, in memory or not."""
        positions = self.log.publish_all(*sizes)
        if cached:
            for position in positions:
                self.cached.setdefault(position.ledger_id, {})[position.entry_id] = self.entry(position)
        return positions

    def entry(self, position: Position) -> StoredEntry:
        """Return an entry as a read finds it."""
        messages = self.log.sizes[position]
        flags = FLAG_BATCH if messages > 1 else 0
        cumulative = self.log.cumulative[position]
        return StoredEntry(*position, messages, flags, None, 0, START_MS, cumulative, 7 * cumulative, b"data")

    def attach(
        self, key: int = 1, *, permits: int = 0, ack_timeout_ms: int = 0, read_compacted: bool = False
    ) -> tuple[Member, Effects]:
        """Attach a consumer. Return it and the effects of the attachment."""
        request = SubscribeRequest(
            topic=TopicName.parse("t"),
            subscription="s",
            type=self.state.type,
            consumer_name=f"c{key}",
            ack_timeout_ms=ack_timeout_ms,
            read_compacted=read_compacted,
        )
        dispatch = DispatchConsumer(key=key, name=f"c{key}")
        member = Member(dispatch, request, self.now_ms, address=f"10.0.0.{key}:5000")
        effects = self.machine.attach(member, self.now_ms)
        if permits:
            self.machine.flow(member, permits, self.now_ms)
        return member, effects

    def pump(self) -> list[Effect]:
        """Send all that can be sent, and return the other effects."""
        wanted: list[Effect] = []
        while self.state.may_send:
            batch = self.machine.sending.next_batch(self.now_ms)
            if batch is None:
                break
            wanted += batch.effects
            for key, deliveries in batch.deliveries:
                sent = self.sent.setdefault(key, [])
                sent += [Position(each.entry.ledger_id, each.entry.entry_id) for each in deliveries]
            if not batch.goes_on:
                break
        return wanted

    def ack(
        self, member: Member, *positions: Position, cumulative: bool = False, receipt: Receipts | None = None
    ) -> list[Effect]:
        """Ack entries, with a receipt or without."""
        return list(
            self.machine.acks.ack(
                member,
                [AckRequest(position) for position in positions],
                cumulative,
                None if receipt is None else receipt.append,
                False,
                self.now_ms,
            )
        )

    def ack_part(self, member: Member, position: Position, remaining: int) -> None:
        """Ack the messages of a batch whose bit is 0 in `remaining`."""
        acks = [AckRequest(position, remaining)]
        self.machine.acks.ack(member, acks, False, None, False, self.now_ms)


class Receipts(list[object]):
    """The answers to a client's acks."""
