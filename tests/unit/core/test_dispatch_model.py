"""Dispatchers with a cursor against their invariants: any interleaving of publishers, consumers and reads.

Over 400 lines: one model for each kind of dispatcher, with the same rules and invariants.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.core.cursor.cursor import Cursor
from broker.core.dispatchers.base import (
    Assignment,
    DispatchConsumer,
    Dispatcher,
    ReadEntry,
    ReadKind,
    ReadPlan,
)
from broker.core.dispatchers.choice import DispatchOptions, dispatcher_for
from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from tests.support.examples import model_settings
from tests.unit.core.logs import Log

MAX_BATCH = 3
SUBSCRIPTION_LIMIT = 12
CONSUMER_LIMIT = 6


class Client:
    """A consumer as its client sees it."""

    def __init__(self, consumer: DispatchConsumer) -> None:
        self.consumer = consumer
        self.granted = 0
        self.received = 0
        self.holds: dict[Position, int] = {}  # the unacked messages of each entry that the client holds


class DispatchMachine(RuleBasedStateMachine):
    kind = SubscriptionType.SHARED

    @initialize(limit=st.sampled_from([0, SUBSCRIPTION_LIMIT]))
    def begin(self, limit: int) -> None:
        self.log = Log()
        self.cursor = Cursor.starting_at(self.log.ledgers, self.log.index, EARLIEST)
        self.dispatcher = self.new_dispatcher(limit)
        self.limit = limit
        self.clients: list[Client] = []
        self.read_position = self.cursor.read_from()
        self.reading: tuple[ReadPlan, list[Position]] | None = None
        self.keys = 0
        self.now_ms = 0
        self.counts: dict[Position, int] = {}
        self.postponed: set[Position] = set()  # positions that were read, but put off by a filter
        self.passed_over: set[Position] = set()  # every position that was ever postponed
        self.log.publish_all(1, 2, 3)
        self.connect(priority=0, limited=False)

    def new_dispatcher(self, limit: int) -> Dispatcher:
        return dispatcher_for(self.kind, DispatchOptions(max_unacked=limit, max_read_entries=8))

    def entry(self, position: Position) -> ReadEntry:
        return ReadEntry(position, self.remaining(position))

    def any_client(self) -> bool:
        return bool(self.clients)

    @rule(sizes=st.lists(st.integers(1, MAX_BATCH), min_size=1, max_size=5))
    def publish(self, sizes: list[int]) -> None:
        self.log.publish_all(*sizes)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(priority=st.integers(0, 1), limited=st.booleans())
    def connect(self, priority: int, limited: bool) -> None:
        if self.clients and self.kind is SubscriptionType.EXCLUSIVE:
            return
        self.keys += 1
        limit = CONSUMER_LIMIT if limited and not self.kind.single_active else 0
        consumer = DispatchConsumer(key=self.keys, name=f"c{self.keys}", priority=priority, max_unacked=limit)
        if self.dispatcher.attach(consumer, self.kind, self.now_ms):
            self.read_position = self.cursor.read_from()
        self.clients.append(Client(consumer))
        self.chosen_again()

    def chosen_again(self) -> None:
        """Called after a consumer came or left. The Failover machine checks here which consumer was chosen."""

    @precondition(any_client)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        held = self.dispatcher.detach(client.consumer, self.now_ms)
        self.clients.remove(client)
        self.chosen_again()
        if not self.kind.single_active:
            assert held == sorted(client.holds)
            assert self.dispatcher.detach(client.consumer) == []
        if not self.clients:
            self.read_position = self.cursor.read_from()
            self.counts.clear()
            self.postponed.clear()

    @precondition(any_client)
    @rule(data=st.data(), permits=st.integers(1, 10))
    def flow(self, data: st.DataObject, permits: int) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.dispatcher.flow(client.consumer, permits)
        client.granted += permits

    @precondition(any_client)
    @rule(data=st.data(), writable=st.booleans())
    def socket(self, data: st.DataObject, writable: bool) -> None:
        data.draw(st.sampled_from(self.clients)).consumer.writable = writable

    @rule(fail=st.booleans())
    def start_read(self, fail: bool) -> None:
        """Begin a read, whose answer comes later. With `fail` no answer comes, and the next plan replaces the read."""
        ready = [c for c in self.clients if c.consumer.available]
        plan = self.dispatcher.next_read()
        assert (plan is not None) <= bool(ready)
        if plan is None:
            if ready and not self.dispatcher.blocked:
                self.nothing_is_read()
            return
        if plan.kind is ReadKind.REPLAY:
            found = list(plan.positions)
            assert found == sorted(set(found))
        else:
            self.reads_on()
            assert not self.dispatcher.blocked
            found = []
            position = self.cursor.next_unacked(self.read_position)
            while len(found) < plan.max_entries and self.log.ledgers.contains(position):
                found.append(position)
                position = self.cursor.next_unacked(self.log.ledgers.next_after(position))
        self.reading = None if fail else (plan, found)

    def nothing_is_read(self) -> None:
        raise AssertionError("somebody could be sent to, yet nothing is read")

    def reads_on(self) -> None:
        assert self.dispatcher.replay_entries == 0

    def check_left(self) -> None:
        assert not self.dispatcher.can_send()

    @precondition(any_client)
    @rule(permits=st.integers(1, 10), sizes=st.lists(st.integers(1, MAX_BATCH), max_size=5))
    def deliver(self, permits: int, sizes: list[int]) -> None:
        """Do in one step what happens most often, so that runs get far: publish, grant permits, read and send."""
        self.log.publish_all(*sizes)
        for client in self.clients:
            client.consumer.writable = True
            self.dispatcher.flow(client.consumer, permits)
            client.granted += permits
        self.start_read(fail=False)
        if self.reading is not None:
            self.finish_read()

    @precondition(lambda self: self.reading is not None)
    @rule(postpones=st.sets(st.integers(0, 7), max_size=2))
    def finish_read(self, postpones: set[int] | None = None) -> None:
        assert self.reading is not None
        plan, found = self.reading
        self.reading = None
        current = self.dispatcher.is_current(plan)
        if current and postpones and self.dispatcher.replays_unassigned:
            for position in [found[at] for at in postpones if at < len(found)]:
                if not self.cursor.is_acked(position):
                    self.dispatcher.postpone(position)
                    self.postponed.add(position)
                    self.passed_over.add(position)
            if plan.kind is ReadKind.NORMAL and found:
                self.read_position = self.log.ledgers.next_after(found[-1])
            found = [position for position in found if position not in self.postponed]
        entries = [self.entry(p) for p in found if not self.cursor.is_acked(p)]
        before = {c.consumer.key: c.consumer.permits.balance for c in self.clients}
        open_ = {c.consumer.key for c in self.clients if c.consumer.available}
        assignments, left = self.dispatcher.assign(entries, plan)
        assert not self.dispatcher.is_current(plan)
        if not current:
            assert not assignments
            assert not left
            return
        if plan.kind is ReadKind.NORMAL and found:
            self.read_position = self.log.ledgers.next_after(found[-1])
            if left and not self.dispatcher.replays_unassigned:
                self.read_position = left[0].position
        for assignment in assignments:
            assert assignment.consumer.key in open_
            self.receive(assignment, before[assignment.consumer.key])
        if left:
            self.check_left()

    @precondition(lambda self: bool(self.clients))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Ask for a replay of some positions. Only positions that a filter left out are read again."""
        before = sorted(p for p in self.log.sizes if p < self.read_position and not self.cursor.is_acked(p))
        if not before or not self.dispatcher.replays_unassigned:
            return
        some = data.draw(st.lists(st.sampled_from(before), max_size=4))
        self.dispatcher.replay(some)
        self.postponed -= set(some)

    def receive(self, assignment: Assignment[ReadEntry], balance: int) -> None:
        client = next(c for c in self.clients if c.consumer is assignment.consumer)
        positions = [entry.position for entry in assignment.entries]
        assert positions == sorted(positions)
        for entry in assignment.entries:
            assert balance > 0, "a send started without permits"
            if client.consumer.max_unacked:
                assert sum(client.holds.values()) < client.consumer.max_unacked, "sent while blocked"
            balance -= entry.messages_remaining
            client.received += entry.messages_remaining
            client.holds[entry.position] = entry.messages_remaining
            assert self.dispatcher.redelivery_count(entry.position) == self.counts.get(entry.position, 0)

    def remaining(self, position: Position) -> int:
        left = self.cursor.remaining_of(position)
        return self.log.sizes[position] if left is None else left.bit_count()

    @precondition(any_client)
    @rule(data=st.data(), part=st.none() | st.integers(0, 7), hint=st.booleans())
    def ack(self, data: st.DataObject, part: int | None, hint: bool) -> None:
        """Ack an entry; any client may ack any entry, delivered or not."""
        if not self.log.sizes:
            return
        position = data.draw(st.sampled_from(sorted(self.log.sizes)))
        client = data.draw(st.sampled_from(self.clients))
        result = self.cursor.ack(position, part)
        if result.messages:
            self.dispatcher.acked(
                position, result.messages, result.completed, client.consumer if hint else None
            )
        for each in self.clients:
            if position in each.holds:
                each.holds[position] -= result.messages
                if result.completed:
                    del each.holds[position]
        if result.completed:
            self.counts.pop(position, None)
            self.postponed.discard(position)

    @precondition(any_client)
    @rule(data=st.data(), everything=st.booleans())
    def redeliver(self, data: st.DataObject, everything: bool) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.holds] or self.clients))
        named = None
        if not everything:
            named = data.draw(
                st.lists(st.sampled_from(sorted(self.log.sizes) or [Position(1, 0)]), max_size=4)
            )
        if self.dispatcher.redeliver(client.consumer, named):
            assert self.kind.single_active
            self.read_position = self.cursor.read_from()
            client.holds.clear()
            return
        for position in list(client.holds):
            if named is None or position in named:
                del client.holds[position]
                self.counts[position] = self.counts.get(position, 0) + 1

    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        """Skip entries by an operator's act; consumers stay connected."""
        if not self.log.sizes:
            return
        position = data.draw(st.sampled_from(sorted(self.log.sizes)))
        if position <= self.cursor.mark_delete:
            return
        self.cursor.move_mark_delete(position)
        self.dispatcher.moved(self.cursor.mark_delete)
        self.read_position = max(self.read_position, self.cursor.read_from())
        for client in self.clients:
            client.holds = {p: n for p, n in client.holds.items() if p > self.cursor.mark_delete}
        self.counts = {p: n for p, n in self.counts.items() if p > self.cursor.mark_delete}

    @invariant()
    def permits_add_up(self) -> None:
        for client in getattr(self, "clients", []):
            permits = client.consumer.permits
            assert permits.balance == permits.granted - permits.spent
            assert permits.granted + permits.aside == client.granted
            assert permits.spent == client.received
            assert permits.balance > -MAX_BATCH

    @invariant()
    def nothing_lost(self) -> None:
        """Check that every unacked entry is ahead of the read position, to be replayed, or held by a client."""
        if not getattr(self, "clients", None):
            return
        held = {position for client in self.clients for position in client.holds}
        for position in self.log.sizes:
            if position < self.read_position and not self.cursor.is_acked(position):
                assert position in held or position in self.postponed or self.replays(position)

    def replays(self, position: Position) -> bool:
        return False


class SharedMachine(DispatchMachine):
    @invariant()
    def held_once(self) -> None:
        if not hasattr(self, "clients"):
            return
        seen: set[Position] = set()
        for client in self.clients:
            pending = set(client.consumer.pending)
            assert pending == set(client.holds)
            assert not pending & seen, "pending at two consumers"
            seen |= pending
            assert not any(self.replays(position) for position in pending)
            assert not any(self.cursor.is_acked(position) for position in pending)
        assert all(self.dispatcher.is_pending(position) == (position in seen) for position in self.log.sizes)

    @invariant()
    def unacked_adds_up(self) -> None:
        if not hasattr(self, "clients"):
            return
        for client in self.clients:
            consumer = client.consumer
            assert consumer.unacked_messages == consumer.pending.messages == sum(client.holds.values())
            assert consumer.pending.entries == len(client.holds)
            if consumer.max_unacked:
                assert consumer.blocked or consumer.unacked_messages < consumer.max_unacked
                assert not consumer.blocked or consumer.unacked_messages > consumer.max_unacked // 2
        total = sum(client.consumer.unacked_messages for client in self.clients)
        assert self.dispatcher.unacked_messages == total
        if self.limit:
            assert self.dispatcher.blocked or total < self.limit
            assert not self.dispatcher.blocked or total >= self.limit // 2
        else:
            assert not self.dispatcher.blocked

    def replays(self, position: Position) -> bool:
        dispatcher = self.dispatcher
        return position in dispatcher._replay or position in dispatcher._reading  # type: ignore[attr-defined]


class ExclusiveMachine(DispatchMachine):
    kind = SubscriptionType.EXCLUSIVE

    @invariant()
    def replays_nothing(self) -> None:
        """Check that no entry waits for a replay: a redelivery moves the read position back instead."""
        for client in getattr(self, "clients", []):
            assert client.consumer.unacked_messages >= 0
            assert self.dispatcher.replay_entries == 0


class FailoverMachine(ExclusiveMachine):
    """I12: between a choice and its switch no consumer gets entries; afterwards only the active one does."""

    kind = SubscriptionType.FAILOVER
    told: DispatchConsumer | None = None

    def new_dispatcher(self, limit: int) -> Dispatcher:
        return dispatcher_for(
            self.kind, DispatchOptions(topic_name="t", failover_delay_ms=10, max_read_entries=8)
        )

    @rule(by_ms=st.integers(0, 12))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms
        due_ms = self.dispatcher.due_ms
        switched = self.dispatcher.run_due(self.now_ms)
        assert switched == (due_ms is not None and due_ms <= self.now_ms)
        assert not self.dispatcher.run_due(self.now_ms)
        if switched:
            self.read_position = self.cursor.read_from()
            self.told = self.dispatcher.active
            for client in self.clients:
                client.holds.clear()

    def chosen_again(self) -> None:
        best = min((client.consumer.priority for client in self.clients), default=None)
        chosen = self.dispatcher.active
        assert (chosen is None) == (not self.clients)
        if chosen is not None:
            assert chosen.priority == best
        if self.dispatcher.due_ms is not None or chosen is None:
            self.told = None
            for client in self.clients:
                client.holds.clear()

    @invariant()
    def nothing_lost(self) -> None:
        if hasattr(self, "clients") and self.dispatcher.due_ms is None:
            super().nothing_lost()  # before the switch, nothing is sent; after it, reads start at mark-delete

    def nothing_is_read(self) -> None:
        assert self.told is None or not self.told.available

    def receive(self, assignment: Assignment[ReadEntry], balance: int) -> None:
        assert assignment.consumer is self.told
        super().receive(assignment, balance)


SLOTS = [1, 9_000, 20_000, 33_000, 47_000, 65_535]
LOOK_AHEAD = 3


class KeySharedMachine(SharedMachine):
    """I9: only one consumer at a time gets a key's messages, in order, and no key waits for another."""

    kind = SubscriptionType.KEY_SHARED
    dispatcher: KeySharedDispatcher

    def new_dispatcher(self, limit: int) -> Dispatcher:
        return KeySharedDispatcher(
            max_unacked=limit, max_read_entries=8, look_ahead=LOOK_AHEAD, max_look_ahead=2 * LOOK_AHEAD
        )

    def slot(self, position: Position) -> int:
        return SLOTS[(position.ledger_id * 7 + position.entry_id * position.entry_id) % len(SLOTS)]

    def entry(self, position: Position) -> ReadEntry:
        return ReadEntry(position, self.remaining(position), slot=self.slot(position))

    def nothing_is_read(self) -> None:
        look_ahead = min(LOOK_AHEAD * len(self.clients), 2 * LOOK_AHEAD)
        assert self.dispatcher.replay_entries >= look_ahead
        self.reads_on()

    def reads_on(self) -> None:
        """Check that each entry that waits for a replay has a reason: no permits, or a slot that drains elsewhere."""
        for position in self.dispatcher._replay.bound():
            slot = self.slot(position)
            owner = self.dispatcher._selector.select(slot)
            assert owner is not None
            holders = [client.consumer for client in self.clients if self.holds_slot(client, slot)]
            assert not owner.available or any(holder is not owner for holder in holders)

    def holds_slot(self, client: Client, slot: int) -> bool:
        return any(self.slot(position) == slot for position in client.holds)

    def check_left(self) -> None:
        """Check nothing: other consumers may still have permits."""

    def receive(self, assignment: Assignment[ReadEntry], balance: int) -> None:
        client = next(c for c in self.clients if c.consumer is assignment.consumer)
        got = {entry.position for entry in assignment.entries}
        for entry in assignment.entries:
            position, slot = entry.position, self.slot(entry.position)
            assert self.dispatcher._selector.select(slot) is assignment.consumer
            for other in self.log.sizes:
                if other in self.passed_over or self.slot(other) != slot or self.cursor.is_acked(other):
                    continue
                if other < position:
                    assert other in client.holds or other in got, "overtaken by a later one of its key"
        super().receive(assignment, balance)

    @invariant()
    def key_at_one_consumer(self) -> None:
        for slot in SLOTS:
            holders = [c for c in getattr(self, "clients", []) if self.holds_slot(c, slot)]
            assert len(holders) <= 1

    @invariant()
    def accounts_agree(self) -> None:
        if not hasattr(self, "clients"):
            return
        dispatcher = self.dispatcher
        pending: dict[int, int] = {}
        for client in self.clients:
            for position in client.holds:
                pending[self.slot(position)] = pending.get(self.slot(position), 0) + 1
        assert dispatcher._pending_entries == pending
        waiting: dict[int, int] = {}
        for position in dispatcher._replay.bound():
            waiting[self.slot(position)] = waiting.get(self.slot(position), 0) + 1
        assert dispatcher._waiting == waiting
        owned = [range_ for owner in dispatcher.ranges() for range_ in owner.ranges]
        if self.clients:
            assert sum(last - first + 1 for first, last in owned) == 65_536


for machine in (SharedMachine, ExclusiveMachine, FailoverMachine, KeySharedMachine):
    machine.TestCase.settings = model_settings(examples=150)
TestShared = SharedMachine.TestCase
TestExclusive = ExclusiveMachine.TestCase
TestFailover = FailoverMachine.TestCase
TestKeyShared = KeySharedMachine.TestCase
