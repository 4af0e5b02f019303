"""Acts on a partitioned topic, checked against a set of acked messages for each partition.

An act must move the cursors of all its partitions, or none. Messages are acked without being delivered first;
machine.py tests delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.core.cursor.cursor import Cursor
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.subscription.requests import AckRequest
from tests.model.operator import Change, Member, Operator, PlannedAct
from tests.model.undo import OpenUndo
from tests.support.broker_harness import ConsumerProbe, ManualClock, ProducerProbe
from tests.support.memory_broker import MemoryRun, memory_run
from tests.support.memory_storage import MemoryStorage

__all__ = ["PartitionedMachine"]

T = TypeVar("T")
PARTITIONS = 3
NAMES = [f"p-partition-{partition}" for partition in range(PARTITIONS)]
MAX_BATCH = 3
ON_SEVERAL = ("clear", "earliest", "latest")
ON_ONE = ("skip", "skip_one", "shift", "id")
ALLOWED = st.sampled_from([0, 0, 3, 1000])
"""How many more messages than planned may be delivered again."""
ACT = st.tuples(
    st.sampled_from((*ON_SEVERAL, *ON_SEVERAL, *ON_ONE, "undo", "undo", "undo")),
    st.sampled_from([None, None, {0, 1}, {0, 2}, {1, 2}, {0}, {1}, {2}]),  # partitions; None = all
    st.sampled_from(["nothing", "nothing", "ack", "ack", "move", "crash", "wait"]),
    ALLOWED,
)
"""An act: its kind, its partitions, what happens before it is applied ("wait": later steps), and the allowed drift."""


class PartitionedMachine(RuleBasedStateMachine):
    """One subscription on three partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.storage = MemoryStorage()
        self.storage.create_partitioned(TopicName.parse("p"), PARTITIONS)
        self.installed = self.storage.installed()
        self.installed.__enter__()
        self.whole = Operator("p", "s")
        self.acked: list[set[Member]] = [set() for _ in NAMES]
        self.durable: list[set[Member]] = [set() for _ in NAMES]
        self.undos: list[OpenUndo | None] = [None for _ in NAMES]  # the undo of the latest act on each cursor
        self.applied: list[tuple[int, dict[int, int]]] = []  # acts, and the part of each partition
        self.planned: tuple[PlannedAct, dict[int, Change]] | None = None
        self.run: MemoryRun
        self.producers: list[ProducerProbe] = []
        self.consumers: list[ConsumerProbe] = []

    @initialize(
        data=st.data(),
        sizes=st.lists(st.lists(st.integers(1, MAX_BATCH), min_size=2, max_size=5), min_size=3, max_size=3),
    )
    def begin(self, data: st.DataObject, sizes: list[list[int]]) -> None:
        self.do(self.start())
        for partition, each in enumerate(sizes):
            self.publish(partition, each)
        self.ack(data, None)

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.do(self.run.crash())
        self.installed.__exit__(None, None, None)
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        self.run = memory_run(self.storage, clock=ManualClock(), flushes=False)
        await self.run.start()
        self.producers = [await self.run.producer(name) for name in NAMES]
        self.consumers = [await self.run.consumer(name) for name in NAMES]
        for name in NAMES:
            topic = self.run.topic(name)
            await topic.reader.load_index(
                [(each.ledger_id, 0, each.entries - 1) for each in topic.log.ledgers if each.entries]
            )

    # -- state

    def cursor(self, partition: int) -> Cursor:
        return self.run.subscription(NAMES[partition]).cursor

    def positions(self, partition: int) -> list[Position]:
        ledgers = self.run.topic(NAMES[partition]).log.ledgers
        return sorted(position for position in self.storage.entries if ledgers.contains(position))

    def members_of(self, position: Position) -> set[Member]:
        return {(position, index) for index in range(self.storage.entries[position].messages)}

    def everything(self, partition: int) -> set[Member]:
        return {member for position in self.positions(partition) for member in self.members_of(position)}

    def versions(self) -> list[int]:
        return [self.cursor(partition).version for partition in range(PARTITIONS)]

    # -- clients

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        sizes=st.lists(st.integers(1, MAX_BATCH), min_size=1, max_size=5),
    )
    def publish(self, partition: int, sizes: Sequence[int]) -> None:
        async def send() -> None:
            for size in sizes:
                self.producers[partition].send(messages=size)
            await self.run.broker.writer.drain()

        self.do(send())

    @rule(data=st.data(), part=st.none() | st.integers(0, 7))
    def ack(self, data: st.DataObject, part: int | None) -> None:
        """Ack some entries of each partition, or parts of them."""
        for partition in range(PARTITIONS):
            positions = data.draw(st.lists(st.sampled_from(self.positions(partition)), max_size=2))
            for position in positions:
                new = {m for m in self.members_of(position) if part is None or not part >> m[1] & 1}
                self.acked[partition] |= new
                if (undo := self.undos[partition]) is not None:
                    undo.ack(new)
            if positions:
                requests = [AckRequest(position, part) for position in positions]
                self.do(self.acknowledge(partition, requests))

    async def acknowledge(self, partition: int, requests: Sequence[AckRequest]) -> None:
        consumer = self.consumers[partition].consumer
        if consumer is None or not consumer.is_open:  # an act has closed the consumer
            self.consumers[partition] = await self.run.consumer(NAMES[partition])
            consumer = self.consumers[partition].consumer
        assert consumer is not None
        consumer.ack(requests, cumulative=False)

    @rule()
    def flush(self) -> None:
        self.do(self.run.flushed())
        for partition in range(PARTITIONS):
            self.stored(partition)

    def stored(self, partition: int) -> None:
        self.durable[partition] = set(self.acked[partition])
        if (undo := self.undos[partition]) is not None:
            undo.durable = set(undo.restored)

    @rule(really=st.sampled_from([False, False, False, True]))
    def crash(self, really: bool) -> None:
        """Crash as with kill -9: acks that were not flushed are lost."""
        if not really:
            return
        self.do(self.run.crash())
        self.acked = [set(each) for each in self.durable]
        for undo in self.undos:
            if undo is not None:
                undo.restored = set(undo.durable)
        self.do(self.start())

    # -- acts

    @rule(data=st.data(), acts=st.lists(ACT, min_size=2, max_size=5))
    def act(self, data: st.DataObject, acts: list[tuple[str, set[int] | None, str, int]]) -> None:
        """Plan and apply several acts, so that runs get deep. Before some acts are applied, other things happen."""
        for kind, chosen, meanwhile, allowed in acts:
            if self.plan_undo(data) if kind == "undo" else self.plan_act(data, kind, chosen):
                self.go_on(data, meanwhile, allowed)

    def go_on(self, data: st.DataObject, meanwhile: str, allowed: int) -> None:
        assert self.planned is not None
        if meanwhile == "ack":
            self.ack(data, None)
        elif meanwhile == "crash":
            self.crash(really=True)
        elif meanwhile == "move":
            partition = data.draw(st.sampled_from(sorted(self.planned[1])), label="partition")
            mine, self.planned = self.planned, None
            if self.plan_act(data, data.draw(st.sampled_from(ON_SEVERAL), label="kind"), {partition}):
                self.apply(0)
            self.planned = mine
        if meanwhile != "wait":
            self.apply(allowed)

    def plan_act(self, data: st.DataObject, kind: str, chosen: set[int] | None) -> bool:
        partitions = sorted(range(PARTITIONS) if chosen is None else chosen)
        if kind in ON_ONE:
            partitions = partitions[:1]
            described = self.on_one(data, kind, partitions[0])
            if described is None:
                return False
            name, parameters, change = described
            changes = {partitions[0]: change}
            chosen = set(partitions)
        else:
            name, parameters = ("clear", {}) if kind == "clear" else ("reset", {"to": kind})
            changes = {partition: self.on_each(kind, partition) for partition in partitions}
        if chosen is not None:
            parameters |= {"partitions": ",".join(map(str, partitions))}
        self.plan(name, parameters, changes)
        return True

    def on_each(self, kind: str, partition: int) -> Change:
        stored = self.everything(partition)
        if kind == "clear":
            return lambda acked: acked | stored
        return lambda acked: set(stored) if kind == "latest" else set()

    def on_one(
        self, data: st.DataObject, kind: str, partition: int
    ) -> tuple[str, dict[str, Any], Change] | None:
        """Return an act on one partition and its effect, or None if there is no message for such an act."""
        everything = sorted(self.everything(partition))
        unacked = sorted(set(everything) - self.acked[partition])
        if kind == "skip":
            count = data.draw(st.integers(1, 8), label="messages")
            passed = unacked[:count]
            through = {m for m in everything if passed and m <= passed[-1]}
            return "skip", {"messages": count}, lambda acked: acked | through
        if kind == "shift":
            count = data.draw(st.integers(-8, 8), label="messages")
            behind = sum(m[0] <= self.cursor(partition).mark_delete for m in everything)
            kept = set(everything[: max(0, behind + count)])
            return "reset", {"to": "shift", "messages": count}, lambda acked: set(kept)
        if not (some := unacked if kind == "skip_one" else everything):
            return None
        position, _ = data.draw(st.sampled_from(some), label="message")
        text = f"{position}:{partition}"
        if kind == "skip_one":
            return "skip_one", {"id": text}, lambda acked: acked | self.members_of(position)
        before = {m for m in everything if m[0] < position}
        return "reset", {"to": "id", "id": text}, lambda acked: set(before)

    def plan(
        self,
        kind: str,
        parameters: dict[str, Any],
        changes: dict[int, Change],
        undo_of: int | None = None,
    ) -> None:
        planned = self.do(self.whole.plan(self.run, kind, set, parameters, undo_of))
        self.planned = (planned, changes)
        plan = self.storage.acts[planned.act_id].plan
        assert plan is not None
        assert [part["partition"] for part in plan["partitions"]] == list(changes)
        for part, (partition, change) in zip(plan["partitions"], changes.items(), strict=True):
            before, everything = self.acked[partition], self.everything(partition)
            after = change(before) & everything
            assert part["skipped_messages"] == len(after - before)
            assert part["replayed_messages"] == len(before - after)
            assert part["current"]["backlog_messages"] == len(everything - before)
            assert part["target"]["backlog_messages"] == len(everything - after)
        self.check_totals(plan, plan["partitions"], "skipped_messages", "replayed_messages")

    def check_totals(self, whole: dict[str, Any], parts: Sequence[dict[str, Any]], *names: str) -> None:
        for name in names:
            assert whole[name] == sum(part[name] for part in parts), name

    def plan_undo(self, data: st.DataObject) -> bool:
        """Plan an undo. It must undo all partitions, or be refused if a later act moved one of them."""
        if not self.applied:
            return False
        act_id, parts = data.draw(st.sampled_from(self.applied[-3:]), label="act to undo")
        moved = [partition for partition, part_id in parts.items() if self.latest(partition) != part_id]
        if moved:
            error = self.do(self.whole.refused_undo(self.run, act_id))
            assert error.startswith(f"partition {moved[0]}: only the latest act on a cursor can be undone")
            return False
        undos = {partition: self.undos[partition] for partition in parts}
        self.plan("undo", {}, {each: _restoring(undo) for each, undo in undos.items()}, undo_of=act_id)
        return True

    @precondition(lambda self: self.planned is not None)
    @rule(allowed=ALLOWED)
    def apply(self, allowed: int) -> None:
        """Apply the plan. Each partition must change as the plan showed, or none may change."""
        assert self.planned is not None
        (planned, changes), self.planned = self.planned, None
        act = self.storage.acts[planned.act_id]
        assert act.plan is not None
        parts = {part["partition"]: part for part in act.plan["partitions"]}
        before = {partition: set(self.acked[partition]) for partition in changes}
        after = {each: change(before[each]) & self.everything(each) for each, change in changes.items()}
        versions, backlogs = self.versions(), self.backlogs()
        replayed = sum(len(before[each] - after[each]) for each in changes)
        is_outdated = any(
            versions[each] != part["cursor_version"]
            or len(after[each] - before[each]) > part["skipped_messages"]
            or len(before[each]) < part["current"]["acked_messages"]
            or (planned.undo_of is not None and part["undo_of"] != self.latest(each))
            for each, part in parts.items()
        )
        is_applied = self.do(self.whole.apply(self.run, planned, allowed_drift_messages=allowed))
        if is_outdated or replayed > act.plan["replayed_messages"] + allowed:
            assert not is_applied
            assert (self.versions(), self.backlogs()) == (versions, backlogs)
            return
        assert is_applied, act.error
        recorded = self.do(self.storage._parts_of(None, planned.act_id))
        self.applied.append((planned.act_id, {each: recorded[_full(each)] for each in changes}))
        for result in act.result["partitions"]:
            partition = result["partition"]
            assert result["skipped_messages"] == len(after[partition] - before[partition])
            assert result["replayed_messages"] == len(before[partition] - after[partition])
            self.acked[partition] = set(after[partition])
            self.durable[partition] = set(after[partition])
            self.undos[partition] = OpenUndo(
                act_id=recorded[_full(partition)],
                mark_delete=self.cursor(partition).mark_delete,
                restored=before[partition],
                durable=set(before[partition]),
                passed=set(after[partition]),
                passed_wholly={
                    p for p in self.positions(partition) if self.members_of(p) <= after[partition]
                },
            )
        names = ("skipped_messages", "replayed_messages", "backlog_messages", "acked_meanwhile_messages")
        self.check_totals(act.result, act.result["partitions"], *names)

    def latest(self, partition: int) -> int | None:
        """Return the latest act on this cursor."""
        undo = self.undos[partition]
        return None if undo is None else undo.act_id

    def backlogs(self) -> list[int]:
        return [self.cursor(partition).backlog_messages for partition in range(PARTITIONS)]

    # -- invariants

    @invariant()
    def totals_are_exact(self) -> None:
        if not hasattr(self, "run"):
            return
        for partition in range(PARTITIONS):
            unacked = sorted(self.everything(partition) - self.acked[partition])
            cursor = self.cursor(partition)
            assert cursor.backlog_messages == len(unacked)
            assert cursor.recount() == cursor.totals
            end = self.run.topic(NAMES[partition]).log.ledgers.end()
            assert cursor.read_from() == (unacked[0][0] if unacked else end)


def _restoring(undo: OpenUndo | None) -> Change:
    assert undo is not None
    return lambda _acked: set(undo.restored)


def _full(partition: int) -> str:
    return TopicName.parse(NAMES[partition]).full
