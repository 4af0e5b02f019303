"""Negative acks, ack timeouts and acks over the WebSocket API, where the broker does what a client library would do.

Over 400 lines, because all these tests are about the same few rules of redelivery.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from broker.core.position import Position
from broker.deadlines import Timed
from broker.subscription.subscription import Subscription
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, running
from tests.support.json_peer import JsonPeer, only_consumer, publish, publish_batch, text_of, texts_of

SHARED, EXCLUSIVE = "subscriptionType=Shared", "subscriptionType=Exclusive"


@pytest.fixture
async def still(broker_url: str) -> AsyncIterator[BrokerRun]:
    """A broker whose time stands still until a test calls `pass_ms`."""
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as started:
        yield started


def pass_ms(run: BrokerRun, ms: int) -> int:
    """Move time on, redeliver what is due then, and return how many deliveries that was."""
    assert isinstance(run.clock, ManualClock)
    run.clock.advance(ms)
    return run.broker.deadlines.run_due()


def backlog(subscription: Subscription) -> int:
    return subscription.cursor.backlog_messages


@pytest.mark.row("S4.1")
async def test_a_message_that_an_application_fails_on_is_redelivered_after_the_ack_timeout(
    still: BrokerRun,
) -> None:
    await publish(still, "a", "b")
    peer = await JsonPeer.open(still, f"{SHARED}&ackTimeoutMillis=1000")
    pushes = await peer.has(2)
    await peer.ack(pushes[0])
    assert pass_ms(still, 1100) == 1
    again = (await peer.has(3))[2]
    assert (text_of(again), again["redeliveryCount"]) == ("b", 1)
    await peer.ack(again)
    await eventually(lambda: backlog(still.subscription()) == 0, "all is acked")


@pytest.mark.row("S4.3")
async def test_several_consumers_share_one_topic(still: BrokerRun) -> None:
    peers = [await JsonPeer.open(still, f"{SHARED}&receiverQueueSize=2") for _ in range(3)]
    await publish(still, *"abcdef")
    texts = [text for peer in peers for text in texts_of(await peer.has(2))]
    assert sorted(texts) == list("abcdef")


@pytest.mark.row("S4.4")
async def test_an_individual_ack_removes_exactly_one(still: BrokerRun) -> None:
    await publish(still, *"12345")
    peer = await JsonPeer.open(still, SHARED)
    await peer.ack((await peer.has(5))[2])
    await peer.leave()
    again = await JsonPeer.open(still, SHARED)
    assert texts_of(await again.has(4)) == list("1245")
    await again.has_no_more(4)


@pytest.mark.row("S4.5")
async def test_a_cumulative_ack_acks_everything_before_it_but_not_on_shared(still: BrokerRun) -> None:
    await publish(still, *"123")
    peer = await JsonPeer.open(still, SHARED)
    await peer.ack((await peer.has(3))[1], type="acknowledge", ackType="cumulative")
    assert backlog(still.subscription()) == 3
    assert still.subscription().counters.ignored_acks == 1
    await peer.leave()
    peer = await JsonPeer.open(still, EXCLUSIVE)
    await peer.ack((await peer.has(3))[1], type="acknowledge", ackType="cumulative")
    await eventually(lambda: backlog(still.subscription()) == 1, "two are acked")
    series = [line for line in still.metrics_text().splitlines() if "ignored_acks_total{" in line]
    assert [line[-2:] for line in series] == [" 1"]


@pytest.mark.row("S4.6")
async def test_batch_members_are_acked_by_themselves(still: BrokerRun) -> None:
    await publish_batch(still, *"0123456789")
    peer = await JsonPeer.open(still, SHARED)
    pushes = await peer.has(10)
    await peer.ack(pushes[0], pushes[4], pushes[9])
    assert backlog(still.subscription()) == 7
    await peer.leave()
    again = await JsonPeer.open(still, SHARED)
    assert texts_of(await again.has(7)) == list("1235678")
    await again.has_no_more(7)


@pytest.mark.row("S4.7")
@pytest.mark.parametrize("who", ["socket", "broker"])
async def test_without_batch_index_acks_a_batch_is_acked_as_a_whole(broker_url: str, who: str) -> None:
    option = "&batchIndexAck=false" if who == "socket" else ""
    async with running(broker_url, batch_index_acks=who == "socket") as run:
        await publish(run, "before")
        await publish_batch(run, *"0123456789")
        peer = await JsonPeer.open(run, SHARED + option)
        pushes = await peer.has(11)
        await peer.ack(*pushes[1:10])
        assert backlog(run.subscription()) == 11
        await peer.leave()
        peer = await JsonPeer.open(run, EXCLUSIVE + option)
        pushes = await peer.has(11)
        # A member in the middle of the batch.
        await peer.ack(pushes[9], type="acknowledge", ackType="cumulative")
        await eventually(lambda: backlog(run.subscription()) == 10, "only what is before the batch is acked")
        await peer.ack(*pushes[1:])
        await eventually(lambda: backlog(run.subscription()) == 0, "the whole batch")


@pytest.mark.row("S4.16")
@pytest.mark.parametrize("delay_ms", [100, 1000])
async def test_a_nacked_message_is_redelivered_after_the_delay_and_not_before(
    still: BrokerRun, delay_ms: int
) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&negativeAckRedeliveryDelay={delay_ms}")
    await peer.nack((await peer.has(1))[0])
    assert pass_ms(still, delay_ms - 1) == 0
    assert pass_ms(still, 1) == 1
    assert (await peer.has(2))[1]["redeliveryCount"] == 1


@pytest.mark.row("S4.16")
async def test_the_delay_has_a_floor_and_a_default(still: BrokerRun) -> None:
    await publish(still, "a")
    for query, delay_ms in (("&negativeAckRedeliveryDelay=0", 100), ("", 60_000)):
        peer = await JsonPeer.open(still, SHARED + query)
        await peer.nack((await peer.has(1))[0])
        assert pass_ms(still, delay_ms - 1) == 0
        assert pass_ms(still, 1) == 1
        await peer.has(2)
        await peer.leave()


@pytest.mark.row("S4.16")
async def test_one_timer_serves_all_messages_due_in_the_same_bucket(run: BrokerRun) -> None:
    await publish(run, *(str(number) for number in range(50)))
    peer = await JsonPeer.open(run, f"{SHARED}&negativeAckRedeliveryDelay=100")
    fired = 0
    deadlines = run.broker.deadlines
    run_due = deadlines.run_due

    def counted(named: Iterable[Timed] = ()) -> int:
        nonlocal fired
        fired += 1
        return run_due(named)

    deadlines.run_due = counted  # type: ignore[method-assign]
    for push in list(await peer.has(50)):
        await peer.nack(push)
    await peer.has(100)
    assert sorted(texts_of(peer.pushes[50:])) == sorted(texts_of(peer.pushes[:50]))
    assert fired < 25


async def test_a_negative_ack_backs_off_with_every_redelivery(still: BrokerRun) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&negativeAckRedeliveryBackoff=100,350,2")
    for number, delay_ms in enumerate((100, 200, 350, 350)):
        await peer.nack((await peer.has(number + 1))[number])
        assert pass_ms(still, delay_ms - 1) == 0
        assert pass_ms(still, 1) == 1
    assert (await peer.has(5))[4]["redeliveryCount"] == 4


@pytest.mark.row("S4.17")
async def test_messages_due_together_are_one_redelivery(still: BrokerRun) -> None:
    await publish(still, *(str(number) for number in range(900)))
    peer = await JsonPeer.open(still, f"{SHARED}&negativeAckRedeliveryDelay=100")
    await peer.nack(*await peer.has(900))
    asked: list[int] = []
    subscription = still.subscription()
    redeliver = subscription.dispatcher.redeliver

    def counted(consumer: object, positions: list[Position]) -> bool:
        asked.append(len(positions))
        return redeliver(consumer, positions)  # type: ignore[arg-type]

    subscription.dispatcher.redeliver = counted  # type: ignore[method-assign,assignment]
    assert pass_ms(still, 100) == 900
    assert asked == [900]
    again = (await peer.has(1800))[900:]
    assert texts_of(again) == [str(number) for number in range(900)]  # in the log's order


@pytest.mark.row("S4.18")
async def test_closing_drops_negative_acks_and_redelivers_at_once(still: BrokerRun) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&negativeAckRedeliveryDelay=3600000")
    other = await JsonPeer.open(still, SHARED)
    first = peer if peer.peer.transport.writes else other
    second = other if first is peer else peer
    await first.nack((await first.has(1))[0])
    await first.leave()
    assert (await second.has(1))[0]["redeliveryCount"] == 0
    assert len(still.subscription().deadlines) == 0


@pytest.mark.row("S4.19")
async def test_a_nack_ends_the_ack_timeout_and_a_second_nack_changes_nothing(still: BrokerRun) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&ackTimeoutMillis=1000&negativeAckRedeliveryDelay=3000")
    (push,) = await peer.has(1)
    await peer.nack(push)
    assert pass_ms(still, 1500) == 0
    await peer.nack(push)
    assert pass_ms(still, 1499) == 0
    assert pass_ms(still, 1) == 1
    assert (await peer.has(2))[1]["redeliveryCount"] == 1
    assert pass_ms(still, 999) == 0


@pytest.mark.row("S4.20")
@pytest.mark.parametrize(("option", "again"), [("", "1"), ("&batchIndexAck=false", "012")])
async def test_a_nack_of_one_member_redelivers_the_entry(still: BrokerRun, option: str, again: str) -> None:
    await publish_batch(still, *"012")
    peer = await JsonPeer.open(still, f"{SHARED}&negativeAckRedeliveryDelay=100{option}")
    pushes = await peer.has(3)
    await peer.ack(pushes[0], pushes[2])
    await peer.nack(pushes[1])
    assert pass_ms(still, 100) == 1
    await peer.has(3 + len(again))
    assert texts_of(peer.pushes[3:]) == list(again)
    await peer.has_no_more(3 + len(again))


@pytest.mark.row("S4.21")
@pytest.mark.parametrize(("tick", "latest_ms"), [("", 1100), ("&ackTimeoutTickMillis=500", 1500)])
async def test_an_ack_timeout_comes_within_a_tick(still: BrokerRun, tick: str, latest_ms: int) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&ackTimeoutMillis=1000{tick}")
    assert isinstance(still.clock, ManualClock)
    await peer.has(1)
    assert pass_ms(still, 999) == 0
    assert pass_ms(still, latest_ms - 999) == 1


@pytest.mark.row("S4.22")
@pytest.mark.parametrize("what", ["ack", "cumulative", "nack", "close"])
async def test_the_end_of_a_delivery_ends_its_timeout(still: BrokerRun, what: str) -> None:
    await publish(still, "a")
    query = EXCLUSIVE if what == "cumulative" else SHARED
    peer = await JsonPeer.open(still, f"{query}&ackTimeoutMillis=1000")
    (push,) = await peer.has(1)
    match what:
        case "ack":
            await peer.ack(push)
        case "cumulative":
            await peer.ack(push, type="acknowledge", ackType="cumulative")
        case "nack":
            await peer.nack(push)
        case "close":
            await peer.leave()
    assert pass_ms(still, 2000) == 0


@pytest.mark.row("S4.22")
async def test_redeliver_all_ends_every_timeout(still: BrokerRun) -> None:
    await publish(still, "a", "b")
    peer = await JsonPeer.open(still, f"{SHARED}&ackTimeoutMillis=1000")
    await peer.has(2)
    assert isinstance(still.clock, ManualClock)
    still.clock.advance(900)
    only_consumer(still.subscription()).redeliver(None)
    await peer.has(4)
    assert pass_ms(still, 900) == 0
    assert pass_ms(still, 200) == 2


@pytest.mark.row("S4.23")
async def test_an_entry_pending_at_one_consumer_goes_to_no_other(still: BrokerRun) -> None:
    peers = [await JsonPeer.open(still, SHARED) for _ in range(2)]
    await publish(still, *(str(number) for number in range(40)))
    for peer in peers:
        await peer.has(1)
        await peer.has_no_more(40)
    texts = [set(texts_of(peer.pushes)) for peer in peers]
    assert not texts[0] & texts[1]
    assert len(texts[0] | texts[1]) == 40


@pytest.mark.row("S4.24")
async def test_a_nack_on_exclusive_redelivers_everything_unacked_in_order(still: BrokerRun) -> None:
    await publish(still, *"123456789")
    peer = await JsonPeer.open(still, f"{EXCLUSIVE}&negativeAckRedeliveryDelay=100")
    pushes = await peer.has(9)
    await peer.ack(pushes[0], pushes[2])
    await peer.nack(pushes[4])
    pass_ms(still, 100)
    again = (await peer.has(16))[9:]
    assert texts_of(again) == list("2456789")
    assert {push["redeliveryCount"] for push in again} == {0}


@pytest.mark.row("S4.27")
@pytest.mark.parametrize(
    ("query", "due_ms"),
    [
        ("", None),
        ("&ackTimeoutMillis=1000", 1000),
        ("&ackTimeoutMillis=1000&ackTimeoutRedeliveryBackoff=500,4000,2", 1500),
    ],
)
async def test_the_options_decide_which_tracker_runs(
    still: BrokerRun, query: str, due_ms: int | None
) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, SHARED + query)
    await peer.has(1)
    if due_ms is None:
        assert len(still.subscription().deadlines) == 0
    else:
        assert pass_ms(still, due_ms - 1) == 0
        assert pass_ms(still, 101) == 1


@pytest.mark.row("S4.28")
async def test_ack_timeouts_back_off_with_every_redelivery(still: BrokerRun) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(
        still, f"{SHARED}&ackTimeoutMillis=1000&ackTimeoutRedeliveryBackoff=1000,3000,2"
    )
    for number, wait_ms in enumerate((2000, 3000, 4000, 4000)):
        await peer.has(number + 1)
        assert pass_ms(still, wait_ms - 1) == 0
        assert pass_ms(still, 1) == 1
    assert (await peer.has(5))[4]["redeliveryCount"] == 4


@pytest.mark.row("S4.29")
async def test_without_an_ack_timeout_a_message_waits_for_its_consumer_to_leave(
    still: BrokerRun,
) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, SHARED)
    await peer.has(1)
    assert pass_ms(still, 600_000) == 0
    await peer.has_no_more(1)
    await peer.leave()
    again = await JsonPeer.open(still, SHARED)
    await again.has(1)
    await again.has_no_more(1)


@pytest.mark.row("S4.30")
@pytest.mark.parametrize(
    "query",
    ["ackTimeoutMillis=999", "ackTimeoutMillis=-1", "ackTimeoutMillis=1000&ackTimeoutTickMillis=99"],
)
async def test_timeouts_and_ticks_have_a_least_value(run: BrokerRun, query: str) -> None:
    status, reason = await JsonPeer(run, query, topic="t", subscription="s").peer.refused()
    assert status == 400
    assert query.split("&")[-1].split("=")[0] in reason


@pytest.mark.row("I8")
async def test_the_unacked_limit_stops_delivery_and_acks_resume_it(broker_url: str) -> None:
    async with running(broker_url, max_unacked_per_consumer=6) as run:
        await publish(run, *(str(number) for number in range(20)))
        peer = await JsonPeer.open(run, SHARED)
        pushes = await peer.has(6)
        await peer.has_no_more(6)
        consumer = only_consumer(run.subscription())
        assert consumer.dispatch.blocked
        assert consumer.dispatch.unacked_messages == consumer.dispatch.pending.messages == 6
        await peer.ack(*pushes[:2])
        await peer.has_no_more(6)
        assert consumer.dispatch.blocked
        await peer.ack(pushes[2])
        await peer.has(9)
        seen = 0
        while backlog(run.subscription()):
            pushes = peer.pushes[seen:]
            seen = len(peer.pushes)
            await peer.ack(*pushes)
            await peer.has(min(20, seen + 1))
            assert 0 <= consumer.dispatch.unacked_messages <= 6
        assert sorted(set(texts_of(peer.pushes)), key=int) == [str(number) for number in range(20)]


@pytest.mark.row("I8")
async def test_the_subscriptions_limit_counts_all_its_sockets(broker_url: str) -> None:
    async with running(broker_url, max_unacked_per_subscription=6) as run:
        peers = [await JsonPeer.open(run, SHARED) for _ in range(2)]
        await publish(run, *(str(number) for number in range(20)))
        await eventually(lambda: run.subscription().dispatcher.unacked_messages == 6, "six are out")
        assert run.subscription().dispatcher.blocked
        while backlog(run.subscription()):
            for peer in peers:
                before = len(peer.pushes)
                peer.pushes += peer.peer.heard()
                await peer.ack(*peer.pushes[before:])
                assert run.subscription().dispatcher.unacked_messages <= 6
        texts = [text for peer in peers for text in texts_of(peer.pushes)]
        assert sorted(texts, key=int) == [str(number) for number in range(20)]


@pytest.mark.row("I14")
async def test_acked_messages_of_a_batch_are_never_redelivered(still: BrokerRun) -> None:
    await publish_batch(still, *"0123")
    peer = await JsonPeer.open(still, f"{SHARED}&negativeAckRedeliveryDelay=100&ackTimeoutMillis=1000")
    pushes = list(await peer.has(4))
    left = list("0123")
    for ends in ("nack", "timeout", "close"):
        acked = pushes[-len(left)]
        await peer.ack(acked)
        left.remove(text_of(acked))
        if ends == "nack":
            await peer.nack(pushes[-1])
            pass_ms(still, 100)
        elif ends == "timeout":
            pass_ms(still, 1100)
        else:
            await peer.leave()
            peer = await JsonPeer.open(still, SHARED)
            pushes = []
        before = len(pushes)
        pushes = list(await peer.has(before + len(left)))
        await peer.has_no_more(before + len(left))
        assert texts_of(pushes[before:]) == left


@pytest.mark.row("S4.2")
async def test_without_timeout_and_nack_a_message_waits_for_its_consumer_to_leave(
    still: BrokerRun,
) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&retryEnable=true")
    await peer.has(1)
    assert pass_ms(still, 3_600_000) == 0
    await peer.has_no_more(1)
    await peer.leave()
    again = await JsonPeer.open(still, f"{SHARED}&retryEnable=true&ackTimeoutMillis=1000")
    await again.has(1)
    assert pass_ms(still, 1100) == 1
    await again.has(2)


async def test_a_message_acked_twice_is_acked_once(still: BrokerRun) -> None:
    await publish(still, *"123")
    peer = await JsonPeer.open(still, SHARED)
    push = (await peer.has(3))[1]
    frame = {"messageId": push["messageId"]}
    await peer.peer.tell([frame, frame], frame)
    await eventually(lambda: backlog(still.subscription()) == 2, "one is acked")
    assert still.subscription().counters.messages_acked == 1
    assert still.subscription().counters.invalid_acks == 0


@pytest.mark.row("S4.25")
async def test_messages_that_wait_for_the_application_have_no_ack_timeout(still: BrokerRun) -> None:
    await publish(still, *(str(number) for number in range(10)))
    peer = await JsonPeer.open(still, f"{SHARED}&receiverQueueSize=5")
    await peer.has(5)
    for _ in range(3):
        assert pass_ms(still, 600_000) == 0
    await peer.has_no_more(5)
    assert only_consumer(still.subscription()).dispatch.unacked_messages == 5


@pytest.mark.row("S4.26")
async def test_a_long_queue_that_stands_still_keeps_messages_until_its_consumer_leaves(
    still: BrokerRun,
) -> None:
    await publish(still, *(str(number) for number in range(30)))
    greedy = await JsonPeer.open(still, f"{SHARED}&receiverQueueSize=1000")
    await greedy.has(30)
    idle = await JsonPeer.open(still, SHARED)
    await idle.has_no_more(0)
    await greedy.leave()
    assert texts_of(await idle.has(30)) == [str(number) for number in range(30)]
