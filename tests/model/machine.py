"""One subscription, checked against a set of acked messages in random runs that include crashes and acts.

Over 400 lines: every rule changes the same few sets, and they must be read together.

Publishing, dispatch, cursor, flush and acts are the real ones, over rows in memory. After each step, totals,
mark-delete, permits and pending messages must agree with the model. The model checks each delivery as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from broker.core.cursor.cursor import Cursor
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import Delivery
from broker.subscription.subscription import Subscription
from tests.model.client import Client, members
from tests.model.operator import Change, Member, Operator, PlannedAct
from tests.model.undo import OpenUndo
from tests.support.broker_harness import ManualClock, ProducerProbe
from tests.support.memory_broker import MemoryRun, memory_run
from tests.support.memory_storage import MemoryStorage

__all__ = ["ALL", "MAX_BATCH", "SubscriptionMachine"]

T = TypeVar("T")
MAX_BATCH = 4
ALL = (1 << MAX_BATCH) - 1


class SubscriptionMachine(RuleBasedStateMachine):
    """The rules that all types share."""

    type: SubscriptionType
    max_consumers = 3

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.storage = MemoryStorage()
        self.clock = ManualClock()
        self.installed = self.storage.installed()
        self.installed.__enter__()
        self.clients: list[Client] = []
        self.acked: set[Member] = set()
        self.durable: set[Member] = set()
        self.counts: dict[Position, int] = {}
        self.names = 0
        self.wrong: list[str] = []
        self.operator = Operator("t", "s")
        self.planned: PlannedAct | None = None
        self.acked_when_planned: set[Member] = set()
        self.has_crashed_since_plan = False
        self.undo: OpenUndo | None = None
        self.run: MemoryRun
        self.producer: ProducerProbe

    @initialize(
        limits=st.sampled_from([(0, 0), (0, 0), (5, 0), (0, 8), (4, 8)]),
        cache=st.sampled_from([0, 2000, 1 << 20]),
        sizes=st.lists(st.integers(1, MAX_BATCH), max_size=5),
    )
    def begin(self, limits: tuple[int, int], cache: int, sizes: list[int]) -> None:
        self.limits = limits
        self.cache = cache
        self.do(self.start())
        self.join(priority=0, permits=5)
        self.publish(sizes)

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.storage.is_answering.set()
            self.do(self.run.crash())
        self.installed.__exit__(None, None, None)
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        self.run = memory_run(
            self.storage,
            clock=self.clock,
            flushes=False,
            tail_cache_bytes=self.cache,
            max_unacked_per_consumer=self.limits[0],
            max_unacked_per_subscription=self.limits[1],
        )
        await self.run.start()
        self.producer = await self.run.producer()
        ledgers = self.run.topic().log.ledgers
        await self.run.topic().reader.load_index(
            [(each.ledger_id, 0, each.entries - 1) for each in ledgers if each.entries]
        )

    async def settle(self) -> None:
        await self.run.broker.writer.drain()
        for _ in range(12):
            await asyncio.sleep(0)

    # -- state

    @property
    def subscription(self) -> Subscription:
        return self.run.subscription()

    @property
    def cursor(self) -> Cursor:
        return self.subscription.cursor

    def sizes(self) -> dict[Position, int]:
        ledgers = self.run.topic().log.ledgers
        return {p: entry.messages for p, entry in self.storage.entries.items() if ledgers.contains(p)}

    def members_of(self, position: Position) -> set[Member]:
        return {(position, index) for index in range(self.storage.entries[position].messages)}

    def everything(self) -> set[Member]:
        return {member for position in self.sizes() for member in self.members_of(position)}

    def unacked_of(self, position: Position) -> frozenset[int]:
        return frozenset(index for _, index in self.members_of(position) - self.acked)

    def someone(self, data: st.DataObject) -> Client:
        return data.draw(st.sampled_from(self.clients), label="client")

    def stored(self, data: st.DataObject) -> Position:
        return data.draw(st.sampled_from(sorted(self.sizes())), label="entry")

    def has_clients(self) -> bool:
        return bool(self.clients)

    def can_act(self) -> bool:
        return bool(self.sizes()) and self.storage.is_answering.is_set()

    def can_ack(self) -> bool:
        return bool(self.clients and self.sizes())

    # -- producers and time

    @rule(sizes=st.lists(st.integers(1, MAX_BATCH), min_size=1, max_size=6))
    def publish(self, sizes: list[int]) -> None:
        for size in sizes:
            self.now(partial(self.send, size))

    def send(self, messages: int) -> None:
        self.producer.send(messages=messages)

    @rule()
    def roll(self) -> None:
        """Let the next append open a new ledger."""
        self.run.broker.segments.open_id += 1

    @rule()
    def let_run(self) -> None:
        self.do(self.settle())
        if self.storage.is_answering.is_set():
            self.check_nothing_waits()

    @precondition(lambda self: len(self.clients) < self.max_consumers)
    @rule(permits=st.integers(1, 20))
    def join_and_read(self, permits: int) -> None:
        """Do the usual steps at once, so that runs get deep. `deliver` does the same."""
        self.join(priority=0, permits=permits)
        self.storage.is_answering.set()
        self.let_run()

    @precondition(has_clients)
    @rule(sizes=st.lists(st.integers(1, MAX_BATCH), min_size=1, max_size=6), permits=st.integers(1, 12))
    def deliver(self, sizes: list[int], permits: int) -> None:
        self.publish(sizes)
        for client in self.clients:
            self.flow_to(client, permits)
        self.storage.is_answering.set()
        self.let_run()
        self.tick(1000)
        self.let_run()

    @rule(answers=st.booleans())
    def database(self, answers: bool) -> None:
        """Let the database answer reads, or hold them until a later step."""
        if answers:
            self.storage.is_answering.set()
        else:
            self.storage.is_answering.clear()

    @rule(by_ms=st.sampled_from([100, 1000, 5000]))
    def tick(self, by_ms: int) -> None:
        """Let time pass, and run what is due."""
        self.clock.advance(by_ms)
        self.now(self.run.broker.deadlines.run_due)

    @rule()
    def flush(self) -> None:
        self.do(self.run.flushed())
        self.durable = set(self.acked)
        if self.undo is not None:
            self.undo.durable = set(self.undo.restored)

    @rule(really=st.sampled_from([False, False, False, True]))
    def crash(self, really: bool) -> None:
        """Crash as with kill -9: flushed acks are kept, and all other acks are lost."""
        if not really:
            return
        self.do(self.run.crash())
        self.storage.is_answering.set()
        self.clients.clear()
        self.counts.clear()
        self.acked = set(self.durable)
        self.has_crashed_since_plan = True
        if self.undo is not None:
            self.undo.restored = set(self.undo.durable)
        self.do(self.start())

    # -- consumers

    @rule(priority=st.integers(0, 1), permits=st.integers(0, 10))
    def join(self, priority: int, permits: int) -> None:
        if len(self.clients) >= self.max_consumers:
            return
        self.names += 1
        client = self.new_client(f"c{self.names}")
        self.clients.append(client)
        self.do(self.run.attach(client, type_=self.type, name=client.name, priority=priority))
        if permits:
            self.flow_to(client, permits)

    def new_client(self, name: str) -> Client:
        return Client(name, self.delivered)

    @precondition(has_clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self.someone(data)
        self.clients.remove(client)
        if not self.clients:
            self.counts.clear()
        self.now(client.leave)

    @precondition(has_clients)
    @rule(data=st.data(), permits=st.integers(1, 12))
    def flow(self, data: st.DataObject, permits: int) -> None:
        self.flow_to(self.someone(data), permits)

    def flow_to(self, client: Client, permits: int) -> None:
        self.now(lambda: client.grant(permits))

    @precondition(has_clients)
    @rule(data=st.data(), writable=st.booleans())
    def socket(self, data: st.DataObject, writable: bool) -> None:
        """Block or unblock a client's socket. The broker notices a block at its next write, and an unblock at once."""
        client = self.someone(data)
        client.writable = writable
        if writable:
            self.now(client.read_again)

    def now(self, call: Callable[[], object]) -> None:
        """Call a function that needs a running loop, before any task of the loop continues."""
        asyncio._set_running_loop(self.loop)
        try:
            call()
        finally:
            asyncio._set_running_loop(None)

    def delivered(self, client: Client, delivery: Delivery, position: Position) -> None:
        """Check a delivery and record what is wrong. An error raised here would reach only the broker's log."""
        try:
            self.check_delivery(client, delivery, position)
        except AssertionError as error:
            self.wrong.append(f"{position} to {client.name}: {error}")

    def check_delivery(self, client: Client, delivery: Delivery, position: Position) -> None:
        entry = delivery.entry
        assert entry == self.storage.entries[position]
        got = members((1 << entry.messages) - 1 if delivery.remaining is None else delivery.remaining)
        assert client in self.clients, "delivered to a consumer that is gone"
        assert client.permits > 0, "sent without permits"
        assert got, "no member of the entry is unacked"
        assert got == self.unacked_of(position), "acked members are delivered again, or unacked ones are not"
        self.check_order(client, delivery, position)
        client.received += len(got)
        client.held[position] = got
        client.last = position

    def check_order(self, client: Client, delivery: Delivery, position: Position) -> None:
        raise NotImplementedError

    # -- acks

    @precondition(can_ack)
    @rule(data=st.data(), part=st.none() | st.integers(0, ALL), others=st.booleans())
    def ack(self, data: st.DataObject, part: int | None, others: bool) -> None:
        """Ack an entry that is pending at the client, or any other: a client may ack entries that it did not get."""
        client = self.someone(data)
        some = sorted(self.sizes() if others or not client.held else client.held)
        positions = data.draw(st.lists(st.sampled_from(some), min_size=1, max_size=3), label="acked")
        for position in positions:
            new = {m for m in self.members_of(position) if part is None or not part >> m[1] & 1}
            self.take_acks(new)
            if self.undo is not None:
                self.undo.ack(new)
        self.now(lambda: client.acknowledge(positions, part))

    def take_acks(self, new: set[Member]) -> None:
        self.acked |= new
        for position in {position for position, _ in new}:
            left = self.unacked_of(position)
            if not left:
                self.counts.pop(position, None)
            for client in self.clients:
                if position in client.held:
                    client.held[position] &= left
                    if not left:
                        del client.held[position]

    @precondition(has_clients)
    @rule(data=st.data(), everything=st.booleans())
    def nack(self, data: st.DataObject, everything: bool) -> None:
        client = self.someone(data)
        named = None
        if not everything:
            some = sorted({*client.held, *self.sizes()})
            if not some:
                return
            named = data.draw(st.lists(st.sampled_from(some), min_size=1, max_size=4), label="nacked")
        self.give_back(client, named)
        self.now(lambda: client.give_back(named))

    def give_back(self, client: Client, named: list[Position] | None) -> None:
        raise NotImplementedError

    # -- moves

    def plan(
        self,
        kind: str,
        change: Change,
        parameters: dict[str, Any],
        *,
        undo_of: int | None = None,
    ) -> None:
        self.planned = self.do(self.operator.plan(self.run, kind, change, parameters, undo_of=undo_of))
        self.acked_when_planned = set(self.acked)
        self.has_crashed_since_plan = False
        plan = self.storage.acts[self.planned.act_id].plan
        after = change(self.acked)
        assert plan is not None
        assert plan["skipped_messages"] == len(after - self.acked)
        assert plan["replayed_messages"] == len(self.acked - after)
        assert plan["current"]["backlog_messages"] == len(self.everything() - self.acked)
        assert plan["target"]["backlog_messages"] == len(self.everything() - after)

    @precondition(can_act)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["clear", "skip", "skip", "skip_one", "earliest", "latest", "id", "shift"]),
        at_once=st.booleans(),
    )
    def act(self, data: st.DataObject, kind: str, at_once: bool) -> None:
        self.plan_act(data, kind)
        if at_once and self.planned is not None:
            self.apply_act()

    def plan_act(self, data: st.DataObject, kind: str) -> None:
        self.do(self.settle())
        if kind == "clear":
            last = max(self.sizes())
            self.plan(kind, lambda acked: acked | {m for m in self.everything() if m[0] <= last}, {})
        elif kind == "skip":
            count = data.draw(st.integers(1, 12), label="messages")
            passed = sorted(self.everything() - self.acked)[:count]
            self.plan(
                kind,
                lambda acked: acked | {m for m in self.everything() if passed and m <= passed[-1]},
                {"messages": count},
            )
        elif kind == "skip_one":
            self.plan_skip_one(data)
        elif kind == "shift":
            count = data.draw(st.integers(-12, 12), label="messages")
            behind = sorted(m for m in self.everything() if m[0] <= self.cursor.mark_delete)
            kept = set(sorted(self.everything())[: max(0, len(behind) + count)])
            self.plan("reset", lambda acked: set(kept), {"to": kind, "messages": count})
        else:
            target = self.stored(data) if kind == "id" else Position(-1, -1)
            end = self.run.topic().log.ledgers.end()
            first = {"id": target, "earliest": target, "latest": end}[kind]
            self.plan(
                "reset",
                lambda acked: {m for m in self.everything() if m[0] < first},
                {"to": kind, "id": str(target)} if kind == "id" else {"to": kind},
            )

    def close_clients(self) -> None:
        """Remove every client from the model, because a reset, an undo or a seek closes it."""
        self.clients.clear()
        self.counts.clear()

    def plan_skip_one(self, data: st.DataObject) -> None:
        unacked = sorted(self.everything() - self.acked)
        if unacked:
            position, index = data.draw(st.sampled_from(unacked), label="message")
            whole = data.draw(st.booleans(), label="the whole entry") or len(self.members_of(position)) == 1
            passed = self.members_of(position) if whole else {(position, index)}
            text = str(position) if whole else f"{position}:-1:{index}"
            self.plan("skip_one", lambda acked: acked | passed, {"id": text})

    @precondition(lambda self: self.undo is not None and self.can_act())
    @rule()
    def plan_undo(self) -> None:
        self.do(self.settle())
        assert self.undo is not None
        undo = self.undo
        self.plan("undo", lambda acked: set(undo.restored), {}, undo_of=undo.act_id)

    @precondition(lambda self: self.planned is not None and self.can_act())
    @rule(allowed=st.sampled_from([0, 0, 3, 1000]))
    def apply_act(self, allowed: int = 0) -> None:
        """Apply the plan. It must have the effect that it showed, or be refused.

        The plan is refused if the cursor has moved since or if acks were lost in a crash. It is also refused if the act
        would now skip or redeliver more messages than allowed.
        """
        self.do(self.settle())
        planned, self.planned = self.planned, None
        assert planned is not None
        before = set(self.acked)
        after = planned.change(before)
        act = self.storage.acts[planned.act_id]
        assert act.plan is not None
        version = self.cursor.version
        replayed, skipped = len(before - after), len(after - before)
        if (
            version != act.cursor_version
            or skipped > act.plan["skipped_messages"]
            or replayed > act.plan["replayed_messages"] + allowed
            or len(before) < len(self.acked_when_planned)
        ):
            assert not self.do(self.operator.apply(self.run, planned, allowed_drift_messages=allowed))
            return
        # Dispatch continues at the cursor's new position before the call returns.
        self.acked = set(after)
        if planned.kind in ("reset", "undo"):
            self.close_clients()
        else:
            self.drop_held_below(after)
        assert self.do(self.operator.apply(self.run, planned, allowed_drift_messages=allowed)), act.error
        assert act.result["skipped_messages"] == skipped
        assert act.result["replayed_messages"] == replayed
        if not self.has_crashed_since_plan:
            self.check_sums(act.plan, act.result, acked=len(before) - len(self.acked_when_planned))
        assert self.cursor.version > version or before == after
        self.durable = set(self.acked)
        self.undo = OpenUndo(
            act_id=planned.act_id,
            mark_delete=self.cursor.mark_delete,
            restored=before,
            durable=set(before),
            passed=set(after),
            passed_wholly={p for p in self.sizes() if self.members_of(p) <= after},
        )

    def check_sums(self, plan: dict[str, Any], result: dict[str, Any], *, acked: int) -> None:
        """Check that the plan's numbers and those of later deliveries and acks add up to the result's numbers."""
        come_again = max(0, result["replayed_messages"] - plan["replayed_messages"])
        not_repeated = max(0, plan["replayed_messages"] - result["replayed_messages"])
        not_skipped = plan["skipped_messages"] - result["skipped_messages"]
        acked_meanwhile = result["acked_meanwhile_messages"]
        assert acked_meanwhile == acked + not_repeated
        assert acked_meanwhile >= come_again + not_repeated + not_skipped
        assert not_repeated == 0 or come_again == 0
        assert result["backlog_messages"] == (
            plan["current"]["backlog_messages"]
            + result["published_meanwhile_messages"]
            - (acked_meanwhile - not_repeated)
            + result["replayed_messages"]
            - result["skipped_messages"]
        )

    def drop_held_below(self, after: set[Member]) -> None:
        """Remove what clients hold up to the new mark-delete: skip and clear take it back without closing consumers."""
        mark_delete = Position(-1, -1)
        for position in sorted(self.sizes()):
            if not self.members_of(position) <= after:
                break
            mark_delete = position
        for client in self.clients:
            left = {
                p: held & frozenset(i for q, i in self.members_of(p) - after)
                for p, held in client.held.items()
                if p > mark_delete
            }
            client.held = {p: held for p, held in left.items() if held}
        self.counts = {p: n for p, n in self.counts.items() if not self.members_of(p) <= after}

    @precondition(lambda self: self.can_act() and self.clients)
    @rule(data=st.data(), part=st.none() | st.integers(1, ALL), really=st.sampled_from([False, False, True]))
    def seek(self, data: st.DataObject, part: int | None, really: bool) -> None:
        """Let a client seek, which closes all consumers of the subscription."""
        if not really:
            return
        self.do(self.settle())
        client = self.someone(data)
        position = self.stored(data)
        self.close_clients()
        self.acked = {m for m in self.everything() if m[0] < position}
        if part is not None:
            self.acked |= {m for m in self.members_of(position) if not part >> m[1] & 1}
        assert client.consumer is not None
        self.do(client.consumer.seek_position(position, part))
        assert not client.consumer.is_open
        self.clients = [each for each in self.clients if each is not client]
        self.durable = set(self.acked)
        self.undo = None

    # -- invariants

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "run"):
            assert self.wrong == []
            self.check()

    def check(self) -> None:
        self.totals_are_exact()
        self.receipts_are_kept()
        self.permits_add_up()

    def totals_are_exact(self) -> None:
        """Check that backlog and mark-delete follow from the acked messages."""
        unacked = self.everything() - self.acked
        open_entries = sorted({position for position, _ in unacked})
        assert self.cursor.backlog_messages == len(unacked)
        assert self.cursor.backlog_entries == len(open_entries)
        assert self.cursor.recount() == self.cursor.totals
        first_open = open_entries[0] if open_entries else self.run.topic().log.ledgers.end()
        assert self.cursor.read_from() == first_open

    def receipts_are_kept(self) -> None:
        """Check that every message with a receipt is stored."""
        for each in self.producer.receipts:
            assert Position(each.ledger_id, each.entry_id) in self.storage.entries

    def permits_add_up(self) -> None:
        """Check that the broker's permits are those granted minus those spent."""
        for client in self.clients:
            assert client.consumer is not None
            assert client.consumer.is_open
            permits = client.consumer.dispatch.permits
            assert permits.granted + permits.aside == client.granted
            assert permits.spent == client.received
            assert permits.balance == permits.granted - permits.spent
            assert permits.balance > -MAX_BATCH

    def check_nothing_waits(self) -> None:
        """Check that every message that could be delivered now was delivered."""
        if any(self.could_take(client) for client in self.clients):
            waiting = [p for p in self.sizes() if self.unacked_of(p) and not self.is_delivered(p)]
            assert not waiting, "deliverable, and not delivered"

    def could_take(self, client: Client) -> bool:
        assert client.consumer is not None
        dispatch = client.consumer.dispatch
        return (
            client.permits > 0
            and dispatch.writable
            and not dispatch.blocked
            and not self.subscription.dispatcher.blocked
        )

    def is_delivered(self, position: Position) -> bool:
        return any(position in client.held for client in self.clients)
