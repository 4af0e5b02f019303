"""A broker in memory, just large enough to drive the doors: topics are lists, and every send is stored at once.

Over 400 lines: it stands for the whole broker, and each part of it is short.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.access.access import Access
from broker.conf import BrokerSettings
from broker.core.client_identity import ClientIdentity
from broker.core.entry import StoredEntry
from broker.core.errors import (
    BrokerError,
    ConsumerBusy,
    InvalidAck,
    InvalidFlow,
    ProducerBusy,
    SchemaNotFound,
    TopicNotFound,
)
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.producers.access import AccessMode
from broker.core.schemas.schema import SchemaDefinition, version_bytes, version_number
from broker.core.subscription.delivery_deadlines import Due
from broker.core.subscription.departure import DepartureCause
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.core.topic_pattern import TopicPattern
from broker.listening.connection_limits import ConnectionLimits
from broker.listening.loop_time import LoopTime
from broker.log.sends import Receipt, SendRequest
from broker.producers.requests import ProducerRequest, ProducerSink
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk
from broker.storage.pool import ConnectionPool
from broker.subscription.consumer import ConsumerRates, DueFilter
from broker.subscription.requests import (
    AckRequest,
    ConsumerSink,
    ConsumerStatistics,
    Delivery,
    DurableCallback,
    LastMessage,
    SubscribeRequest,
)
from broker.tasks import BackgroundTasks
from broker.topics.lists.topic_lists import TopicLists, TopicListWatch
from broker.topics.rates import Rates
from tests.support.broker_harness import ManualClock


@dataclass(eq=False)
class FakeTopic:
    """A log with one ledger."""

    ledger_id: int
    name: TopicName
    entries: list[StoredEntry] = field(default_factory=list)
    producers: dict[str, FakeProducer] = field(default_factory=dict)
    subscriptions: dict[str, FakeSubscription] = field(default_factory=dict)

    def append(self, request: SendRequest) -> StoredEntry:
        before = self.entries[-1].cumulative_messages if self.entries else 0
        entry = StoredEntry(
            ledger_id=self.ledger_id,
            entry_id=len(self.entries),
            messages=request.messages,
            flags=request.flags,
            key_hash=request.key_hash,
            deliver_at_ms=request.deliver_at_ms,
            append_ms=len(self.entries),
            cumulative_messages=before + request.messages,
            cumulative_bytes=0,
            data=request.data,
        )
        self.entries.append(entry)
        return entry


@dataclass(eq=False)
class FakeSubscription:
    """A subscription: its acks, the entries to deliver next, and its consumers."""

    topic: FakeTopic
    type: SubscriptionType
    next_entry: int = 0
    replay: list[int] = field(default_factory=list)
    acked: set[int] = field(default_factory=set)
    remaining: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    consumers: list[FakeConsumer] = field(default_factory=list)

    def next_due(self) -> int | None:
        while self.replay:
            entry_id = self.replay.pop(0)
            if entry_id not in self.acked:
                return entry_id
        while self.next_entry < len(self.topic.entries):
            self.next_entry += 1
            if self.next_entry - 1 not in self.acked:
                return self.next_entry - 1
        return None

    def pump(self) -> None:
        for consumer in list(self.consumers):
            deliveries: list[Delivery] = []
            while consumer.permits > 0 and consumer.writable and consumer.sink.is_writable():
                entry_id = self.next_due()
                if entry_id is None:
                    break
                entry = self.topic.entries[entry_id]
                remaining = self.remaining.get(entry_id)
                consumer.permits -= entry.messages if remaining is None else remaining.bit_count()
                consumer.pending.add(entry_id)
                deliveries.append(Delivery(entry, self.counts.get(entry_id, 0), remaining))
                if len(deliveries) >= consumer.broker.deliveries_per_write:
                    consumer.deliver(deliveries)
                    deliveries = []
            if deliveries:
                consumer.deliver(deliveries)


@dataclass(eq=False)
class FakeProducer:
    """A producer whose receipts come in the next turn of the loop, or at the test's `commit`."""

    broker: FakeBroker
    topic: FakeTopic
    name: str
    sink: ProducerSink
    last_sequence_id: int = -1
    schema_version: bytes = b""
    topic_epoch: int | None = None
    is_ready: bool = True
    max_message_bytes: int = 0
    waiting: list[SendRequest] = field(default_factory=list)
    # Errors of sends that the connection refused itself.
    refusals: list[BrokerError] = field(default_factory=list)
    is_open: bool = True
    on_ready: Callable[[], None] | None = None
    on_throttled: Callable[[bool], None] | None = None

    @property
    def topic_name(self) -> TopicName:
        return self.topic.name

    def send(self, request: SendRequest) -> None:
        self.waiting.append(request)
        if self.broker.commits and len(self.waiting) == 1:
            asyncio.get_running_loop().call_soon(self.commit)

    def refused(self, error: BrokerError) -> None:
        self.refusals.append(error)

    def make_ready(self, *, topic_epoch: int) -> None:
        self.is_ready, self.topic_epoch = True, topic_epoch
        assert self.on_ready is not None
        self.on_ready()

    def commit(self) -> None:
        requests, self.waiting = self.waiting, []
        receipts: list[Receipt] = []
        for request in requests:
            if self.broker.refuse_sends is not None:
                if self.is_open:
                    self.sink.on_send_failed(request, self.broker.refuse_sends)
                continue
            entry = self.topic.append(request)
            receipts.append(
                Receipt(
                    request.sequence_id,
                    request.highest_sequence_id,
                    entry.ledger_id,
                    entry.entry_id,
                    len(request.data),
                )
            )
        if receipts and self.is_open:
            self.sink.on_receipts(receipts)
        for subscription in self.topic.subscriptions.values():
            subscription.pump()

    async def close(self) -> None:
        self.commit()
        self.detach()

    def detach(self) -> None:
        self.is_open = False
        self.topic.producers.pop(self.name, None)


@dataclass(eq=False)
class FakeConsumer:
    """A consumer that records requests."""

    broker: FakeBroker
    subscription: FakeSubscription
    request: SubscribeRequest
    sink: ConsumerSink
    permits: int = 0
    granted: int = 0
    pending: set[int] = field(default_factory=set)
    writable: bool = True
    validation_errors: list[str] = field(default_factory=list)
    negative: list[tuple[Position, int]] = field(default_factory=list)
    detached: bool = False
    due_filter: DueFilter | None = None
    epoch: int | None = None

    @property
    def is_open(self) -> bool:
        return not self.detached

    @property
    def name(self) -> str:
        return self.request.consumer_name

    @property
    def topic_name(self) -> TopicName:
        return self.subscription.topic.name

    @property
    def subscription_type(self) -> SubscriptionType:
        return self.request.type

    def statistics(self, rates: ConsumerRates) -> ConsumerStatistics:
        return ConsumerStatistics(
            connected_ms=1_500,
            permits=self.permits,
            unacked_messages=len(self.pending),
            is_blocked=False,
            backlog_entries=len(self.subscription.topic.entries) - len(self.subscription.acked),
            messages_out_per_s=1.5,
            bytes_out_per_s=2.5,
            messages_redelivered_per_s=3.5,
            messages_acked_per_s=4.5,
        )

    def flow(self, permits: int) -> None:
        if permits <= 0:
            raise InvalidFlow(f"permits are {permits}; grant at least 1")
        self.permits += permits
        self.granted += permits
        self.subscription.pump()

    def ack(
        self,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None = None,
        validation_error: str | None = None,
        permits_settled: bool = False,
    ) -> None:
        subscription = self.subscription
        error: BrokerError | None = None
        if validation_error is not None:
            self.validation_errors.append(validation_error)
        for position, remaining in acks:
            topic = subscription.topic
            if position.ledger_id != topic.ledger_id or position.entry_id >= len(topic.entries):
                error = InvalidAck(f"{position.ledger_id}:{position.entry_id} is not stored")
                continue
            if cumulative:
                subscription.acked.update(range(position.entry_id))
                self.pending -= set(range(position.entry_id))
            left = (
                0
                if remaining is None
                else remaining & subscription.remaining.get(position.entry_id, remaining)
            )
            if left:
                subscription.remaining[position.entry_id] = left
            else:
                subscription.acked.add(position.entry_id)
                self.pending.discard(position.entry_id)
        if on_durable is not None:
            on_durable(error)

    def redeliver(self, positions: Sequence[Position] | None, *, epoch: int | None = None) -> None:
        self.epoch = self.epoch if epoch is None else epoch
        chosen = (
            sorted(self.pending)
            if positions is None
            else [p.entry_id for p in positions if p.entry_id in self.pending]
        )
        for entry_id in chosen:
            self.pending.discard(entry_id)
            self.subscription.counts[entry_id] = self.subscription.counts.get(entry_id, 0) + 1
        self.subscription.replay += chosen
        self.subscription.pump()

    def redeliver_at(self, positions: Sequence[Position], due_ms: int) -> None:
        self.negative += [(position, due_ms) for position in positions]

    def filter_due(self, due_filter: DueFilter) -> None:
        self.due_filter = due_filter

    def come_due(self, *entry_ids: int, is_nack: bool = True) -> list[Position]:
        """Let the deadlines of these entries pass. Redeliver and return those that the filter keeps."""
        ledger_id = self.subscription.topic.ledger_id
        due = [Due(Position(ledger_id, entry_id), is_nack) for entry_id in entry_ids]
        wanted = [each.position for each in due] if self.due_filter is None else self.due_filter(due)
        if wanted:
            self.redeliver(wanted)
        return wanted

    def redelivery_count(self, position: Position) -> int:
        return self.subscription.counts.get(position.entry_id, 0)

    def has_ledger(self, ledger_id: int) -> bool:
        return ledger_id == self.subscription.topic.ledger_id

    def has_pending(self, position: Position) -> bool:
        return not self.detached and position.entry_id in self.pending

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        if position.entry_id in self.subscription.acked:
            raise InvalidAck("acknowledged already")
        entry = self.subscription.topic.entries[position.entry_id]
        return entry, self.subscription.remaining.get(position.entry_id)

    def acker(self) -> Callable[[Sequence[AckRequest]], None]:
        return lambda acks: self.ack(acks, cumulative=False)

    def letter_written(self, position: Position, topic: str, *, is_retry: bool) -> None:
        pass

    async def seek_position(self, position: Position, remaining: int | None) -> None:
        self._seek_to(max(position.entry_id, 0))

    async def seek_time(self, publish_time_ms: int) -> None:
        self._seek_to(0)

    def _seek_to(self, entry_id: int) -> None:
        subscription = self.subscription
        for consumer in list(subscription.consumers):
            consumer.sink.on_consumer_closed("seek")
            consumer.detach()
        subscription.replay.clear()
        subscription.remaining.clear()
        subscription.acked = set(range(min(entry_id, len(subscription.topic.entries))))
        subscription.next_entry = len(subscription.acked)

    async def last_message(self) -> LastMessage:
        entries = self.subscription.topic.entries
        done = self.subscription.acked
        mark = next((i for i in range(len(entries)) if i not in done), len(entries)) - 1
        ledger_id = self.subscription.topic.ledger_id
        if not entries:
            return LastMessage(position=EARLIEST, number_in_batch=0, mark_delete=Position(ledger_id, -1))
        last = entries[-1]
        return LastMessage(
            position=Position(ledger_id, last.entry_id),
            number_in_batch=last.messages if last.is_batch else 0,
            mark_delete=Position(ledger_id, mark),
        )

    async def unsubscribe(self, *, force: bool) -> None:
        if len(self.subscription.consumers) > 1 and not force:
            raise ConsumerBusy("other consumers are attached")
        subscriptions = self.subscription.topic.subscriptions
        del subscriptions[self.request.subscription]
        self.detach()

    def deliver(self, deliveries: list[Delivery]) -> None:
        self.sink.deliver(deliveries)
        self.writable = self.sink.is_writable()

    def writable_again(self) -> None:
        self.writable = True
        self.subscription.pump()

    def stop_delivery(self) -> None:
        self.permits = 0

    def detach(self, cause: DepartureCause = DepartureCause.LOST) -> None:
        if self.detached:
            return
        self.detached = True
        if self in self.subscription.consumers:
            self.subscription.consumers.remove(self)
        self.subscription.replay = sorted({*self.subscription.replay, *self.pending})
        self.pending.clear()
        self.subscription.pump()


class FakeBroker:
    """A `BrokerPort`. It creates a topic when somebody uses it, unless the name begins with "absent"."""

    def __init__(
        self, *, max_message_bytes: int = 1024 * 1024, environment: Mapping[str, str] | None = None
    ) -> None:
        self.settings = BrokerSettings.from_environment(
            {
                "VELA_MAX_MESSAGE_BYTES": str(max_message_bytes),
                "VELA_MAX_UNCOMPRESSED_BYTES": str(2 * max_message_bytes),
                "VELA_PULSAR_PORT": "0",
                **(environment or {}),
            }
        )
        self.clock = ManualClock()
        self.access = Access(self.settings, ConnectionPool("", name="none", size=1))
        self.connections = ConnectionLimits(self.settings, LoopTime(now_ns=lambda: 0))
        self.topics: dict[str, FakeTopic] = {}
        self.partitions: dict[str, int] = {}
        self.waiting_modes: set[AccessMode] = set()
        self.schemas: dict[str, list[SchemaDefinition]] = {}
        self.refused_requests: Counter[str] = Counter()
        self.rates = Rates()
        self.commits = True  # if False, sends wait for their producer's `commit`
        self.refuse_sends: BrokerError | None = None
        self.ready = (True, "")
        self.identities: list[ClientIdentity] = []
        self.deliveries_per_write = 100
        self.topic_lists = TopicLists(self._names, BackgroundTasks())
        self.opening = asyncio.Event()  # while it is cleared, opening a producer or consumer waits
        self.opening.set()

    def topic(self, name: str) -> FakeTopic:
        parsed = TopicName.parse(name)
        if parsed.local_name.startswith("absent"):
            raise TopicNotFound(f"topic {parsed} does not exist")
        return self.topics.setdefault(parsed.full, FakeTopic(len(self.topics) + 1, parsed))

    def is_ready(self) -> tuple[bool, str]:
        return self.ready

    def metrics_page(self) -> Iterator[bytes]:
        yield b"vela_up 1\n"
        yield b""
        yield b"vela_down 0\n"

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        is_known = topic.full in self.topics or topic.full in self.partitions
        if topic.local_name.startswith("absent") or not (create or is_known):
            raise TopicNotFound(f"topic {topic} does not exist")
        return self.partitions.get(topic.full, 0)

    def service_urls(self, topic: TopicName) -> tuple[str, str]:
        return self.settings.advertised_url, self.settings.advertised_tls_url

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        return [name for name, topic in self.topics.items() if topic.name.namespace_name == namespace]

    async def _names(self, tenant: str, namespace: str) -> list[str]:
        return await self.topics_of_namespace(f"{tenant}/{namespace}")

    async def watch_topics(
        self,
        namespace: str,
        pattern: TopicPattern,
        on_change: Callable[[frozenset[str], frozenset[str]], None],
    ) -> TopicListWatch:
        return await self.topic_lists.watch(namespace, pattern, on_change)

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        raise TopicNotFound(f"topic {ask.topic} cannot be pulled here")

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        raise TopicNotFound(f"topic {ask.topic} cannot be pulled here")

    def forget_pull(self, parked: ParkedPull) -> None:
        raise AssertionError("nothing is parked here")

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        raise TopicNotFound(f"topic {topic} cannot be pulled here")

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        raise TopicNotFound(f"topic {topic} cannot be pulled here")

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> FakeProducer:
        await self.opening.wait()
        topic = self.topic(request.topic.full)
        name = request.name or f"fake-{len(self.identities)}"
        self.identities.append(identity)
        other = topic.producers.get(name)
        if other is not None:
            if await other.sink.is_alive():
                raise ProducerBusy(f"producer {name} is connected")
            other.detach()
        producer = topic.producers[name] = FakeProducer(
            self,
            topic,
            name,
            sink,
            is_ready=request.access_mode not in self.waiting_modes,
            on_ready=request.on_ready,
            on_throttled=request.on_throttled,
        )
        return producer

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        versions = self.schemas.get(topic.base, [])
        if not versions or version not in (None, *map(version_bytes, range(len(versions)))):
            raise SchemaNotFound(f"{topic} has no schema")
        number = len(versions) - 1 if version is None else version_number(version)
        return versions[number], version_bytes(number)

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        versions = self.schemas.setdefault(topic.base, [])
        if schema not in versions:
            versions.append(schema)
        return version_bytes(versions.index(schema))

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> FakeConsumer:
        await self.opening.wait()
        if request.topic.full not in self.topics and not request.create_topic:
            raise TopicNotFound(f"topic {request.topic} does not exist")
        topic = self.topic(request.topic.full)
        self.identities.append(identity)
        subscription = topic.subscriptions.get(request.subscription)
        if subscription is None:
            subscription = topic.subscriptions[request.subscription] = FakeSubscription(topic, request.type)
            start = request.start
            if start is None:
                start = EARLIEST if request.earliest else LATEST
            subscription.next_entry = (
                len(topic.entries) if start == LATEST else min(max(start.entry_id, 0), len(topic.entries))
            )
            if request.start_remaining is not None:
                subscription.remaining[start.entry_id] = request.start_remaining
        if request.type is SubscriptionType.EXCLUSIVE:
            for other in list(subscription.consumers):
                if await other.sink.is_alive():
                    raise ConsumerBusy("an Exclusive consumer is connected already")
                other.detach()
        consumer = FakeConsumer(self, subscription, request, sink)
        subscription.consumers.append(consumer)
        return consumer
