"""How a busy connection shares the event loop's time with others, over both doors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.doors.binary.wire.decoding import SLICE_IDS
from broker.listening.connection_limits import ConnectionLimits
from broker.listening.loop_time import PART_NS, TURN_NS, LoopTime
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.wire_client import WireClient, settle
from vela.wire.binary import commands

A_PART = 10  # the number of pieces of work in a connection's part
TICK_NS = PART_NS // A_PART


class Ticking:
    """A clock that advances by one tick at each reading."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += TICK_NS
        return self.now_ns


@pytest.fixture
def busy_broker(broker: FakeBroker) -> FakeBroker:
    """A broker on whose clock each command takes a tenth of a connection's part."""
    broker.connections = ConnectionLimits(broker.settings, LoopTime(now_ns=Ticking()))
    return broker


async def connected(broker: FakeBroker) -> WireClient:
    client = WireClient(broker)
    await settle()
    return client


async def test_a_connection_handles_its_part_of_a_turn_and_goes_on_in_later_ones(
    busy_broker: FakeBroker,
) -> None:
    client = await connected(busy_broker)
    client.tell(*[commands.ping()] * 35)
    handled = [len(client.names())]
    assert not client.is_read_from()
    for _ in range(4):
        await asyncio.sleep(0)
        handled.append(len(client.names()))
    assert sum(handled) == 35
    assert max(handled) == A_PART
    assert handled[0] > 0
    assert client.is_read_from()
    assert busy_broker.connections.loop_time.waits == 3


async def test_another_connection_is_served_between_two_parts(busy_broker: FakeBroker) -> None:
    greedy, modest = await connected(busy_broker), await connected(busy_broker)
    greedy.tell(*[commands.ping()] * 1000)
    modest.tell(commands.ping())
    assert modest.names() == ["PONG"]
    assert 0 < len(greedy.names()) <= A_PART


async def test_many_greedy_connections_do_more_than_a_turns_work_in_no_turn(busy_broker: FakeBroker) -> None:
    clients = [await connected(busy_broker) for _ in range(10)]
    for client in clients:
        client.tell(*[commands.ping()] * 100)
    first = [len(client.names()) for client in clients]
    assert sum(first) <= TURN_NS // TICK_NS + 1
    done = list(first)
    for _ in range(30):
        await asyncio.sleep(0)
        now = [len(client.names()) for client in clients]
        assert sum(now) <= TURN_NS // TICK_NS + len(clients)
        done = [before + more for before, more in zip(done, now, strict=True)]
    assert max(done) - min(done) <= 3 * A_PART
    await settle(passes=200)
    assert all(client.is_read_from() for client in clients)


async def test_bytes_behind_a_refused_frame_are_not_handled_before_the_refusal(
    busy_broker: FakeBroker,
) -> None:
    client = await connected(busy_broker)
    client.tell(*[commands.ping()] * 25, b"\xff" * 16)
    await settle()
    assert client.names() == ["PONG"] * 25 + ["ERROR"]
    assert client.is_closed()


async def test_an_ack_as_long_as_a_frame_may_be_leaves_turns_to_others(busy_broker: FakeBroker) -> None:
    greedy, modest = await connected(busy_broker), await connected(busy_broker)
    await greedy.subscribe()
    greedy.names()
    greedy.tell(commands.ack(1, [(1, entry, None) for entry in range(30_000)], request_id=7))
    answered = 0
    while not greedy.names():
        modest.tell(commands.ping())
        await asyncio.sleep(0)
        answered += len(modest.names())
        assert answered < 10_000
    assert answered > 30_000 // SLICE_IDS // (TURN_NS // TICK_NS)


async def test_a_lost_connection_is_forgotten_in_line(busy_broker: FakeBroker) -> None:
    client = await connected(busy_broker)
    client.tell(*[commands.ping()] * 100)
    handled = len(client.names())
    client.connection.lost()
    await settle()
    assert 0 < handled <= A_PART
    assert not client.names()


async def test_a_connection_does_not_owe_the_time_in_which_the_system_ran_something_else() -> None:
    now_ns = cpu_ns = 0
    loop_time = LoopTime(now_ns=lambda: now_ns, cpu_ns=lambda: cpu_ns)
    share, other = loop_time.share(), loop_time.share()
    for each, used_ns in ((share, PART_NS // 2), (other, 100 * PART_NS)):
        loop_time.turn_soon()
        await settle()  # lets a turn begin
        assert each.may_begin()
        now_ns += 100 * PART_NS
        cpu_ns += used_ns
        each.ends()
    assert share.credit_ns == PART_NS // 2
    assert other.credit_ns == -99 * PART_NS


async def test_a_step_of_a_task_is_charged_and_its_waiting_is_not() -> None:
    clock = Ticking()
    loop_time = LoopTime(now_ns=clock)
    share = loop_time.share()
    assert share.may_begin()
    share.ends()
    before_ns = share.credit_ns
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "done"

    async def charged() -> str:
        return await share.charging(work(), paid_ns=0)

    task = asyncio.create_task(charged())
    await settle()
    clock.now_ns += 50 * TICK_NS  # the time that other tasks use meanwhile
    gate.set()
    assert await task == "done"
    assert before_ns - share.credit_ns == 2 * TICK_NS


async def test_cancelling_a_charged_task_cancels_its_work() -> None:
    share = LoopTime(now_ns=lambda: 0).share()
    ended = []

    @contextmanager
    def noticing() -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def work() -> None:
        with noticing():
            await asyncio.Event().wait()

    async def charged() -> None:
        await share.charging(work(), paid_ns=0)

    task = asyncio.create_task(charged())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]
