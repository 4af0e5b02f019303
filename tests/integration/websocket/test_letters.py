"""Dead letters and retry letters that the broker writes for clients of the JSON WebSocket API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.core.position import EARLIEST
from broker.core.subscription.story_rows import StoryEvent
from broker.core.topic_name import TopicName
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, one_row, rows, running
from tests.support.json_peer import JsonPeer, only_consumer, publish, publish_batch, text_of, texts_of
from tests.support.postgres_proxy import Moment
from vela.wire.entry import Message, decode_messages
from vela.wire.message_id import MessageId

DLQ, RETRY = "t-s-DLQ", "t-s-RETRY"
SHARED = "subscriptionType=Shared&negativeAckRedeliveryDelay=100"
FULL = "persistent://public/default/t"


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


def stored(run: BrokerRun, topic: str) -> list[Message]:
    """Read every message of a topic from the database."""
    found = rows(
        run.database_url,
        "SELECT e.data FROM vela_entry e JOIN vela_ledger l ON l.id = e.ledger_id"
        " JOIN vela_topic t ON t.id = l.topic_id WHERE t.name = %s ORDER BY e.ledger_id, e.entry_id",
        TopicName.parse(topic).full,
    )
    return [
        message for (data,) in found for message in decode_messages(bytes(data), max_message_bytes=1 << 20)
    ]


async def letters(run: BrokerRun, topic: str, count: int) -> list[Message]:
    """Wait until a topic has this many messages, and return them."""
    await eventually(lambda: len(stored(run, topic)) >= count, f"{count} letters on {topic}")
    return stored(run, topic)


def backlog(run: BrokerRun) -> int:
    return run.subscription().cursor.backlog_messages


async def nack_through(run: BrokerRun, peer: JsonPeer, times: int) -> list[dict[str, Any]]:
    """Nack the only message each time it is delivered, `times` times, and return its deliveries."""
    for number in range(times):
        pushes = await peer.has(number + 1)
        await peer.nack(pushes[number])
        pass_ms(run, 100)
    return peer.pushes


@pytest.mark.row("I16")
async def test_a_message_nacked_max_plus_one_times_is_a_dead_letter_and_then_acked(
    still: BrokerRun,
) -> None:
    await publish(still, "bad", key="k", properties={"a": "b"}, event_time_ms=77, ordering_key=b"o")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=2")
    pushes = await nack_through(still, peer, 3)
    assert [push["redeliveryCount"] for push in pushes] == [0, 1, 2]
    (letter,) = await letters(still, DLQ, 1)
    origin = MessageId.from_base64(pushes[0]["messageId"])
    text = f"{origin.ledger_id}:{origin.entry_id}:-1"
    assert letter.properties == {
        "a": "b",
        "REAL_TOPIC": FULL,
        "ORIGIN_MESSAGE_ID": text,
        "ORIGIN_MESSAGE_IDY_TIME": text,
        "REAL_SUBSCRIPTION": "s",
    }
    assert (letter.payload, letter.key, letter.ordering_key, letter.event_time_ms) == (b"bad", "k", b"o", 77)
    assert letter.producer_name.startswith(f"{FULL}-s-")
    assert letter.producer_name.endswith("-DLQ")
    await eventually(lambda: backlog(still) == 0, "the original is acked")
    await peer.has_no_more(3)
    await still.broker.reporter.stories.write()
    assert [
        (StoryEvent(event), detail)
        for event, detail in rows(
            still.database_url, "SELECT event, detail FROM vela_delivery_story ORDER BY id"
        )
    ] == [
        (StoryEvent.DELIVERED, ""),
        (StoryEvent.NEGATIVELY_ACKED, ""),
        (StoryEvent.DELIVERED, ""),
        (StoryEvent.NEGATIVELY_ACKED, ""),
        (StoryEvent.DELIVERED, ""),
        (StoryEvent.DEAD_LETTERED, TopicName.parse(DLQ).full),
        (StoryEvent.ACKED, ""),
    ]


@pytest.mark.row("I16")
async def test_with_the_go_dead_letter_rule_the_application_sees_max_deliveries(still: BrokerRun) -> None:
    await publish(still, "bad")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=2&deadLetterRule=go")
    pushes = await nack_through(still, peer, 2)
    assert len(await letters(still, DLQ, 1)) == 1
    await eventually(lambda: backlog(still) == 0, "the original is acked")
    assert [push["redeliveryCount"] for push in pushes] == [0, 1]
    await peer.has_no_more(2)
    await eventually(
        lambda: only_consumer(still.subscription()).dispatch.permits.balance == 1000,
        "the permit of the unseen delivery is granted again",
    )


async def refuse_all_but(run: BrokerRun, topic: str) -> None:
    """Make PostgreSQL refuse every new entry except on this topic."""
    (ledger_id,) = one_row(
        run.database_url,
        "SELECT l.id FROM vela_ledger l JOIN vela_topic t ON t.id = l.topic_id WHERE t.name = %s",
        TopicName.parse(topic).full,
    )
    rows(
        run.database_url,
        f"ALTER TABLE vela_entry_1 ADD CONSTRAINT test_only CHECK (ledger_id = {ledger_id}) NOT VALID",
    )


@pytest.mark.row("I16")
async def test_a_letter_that_cannot_be_written_is_redelivered_until_it_can(still: BrokerRun) -> None:
    await publish(still, "bad", "good")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=1")
    bad, good = await peer.has(2)
    await refuse_all_but(still, "t")
    await peer.nack(bad)
    pass_ms(still, 100)
    again = (await peer.has(3))[2]
    assert (text_of(again), again["redeliveryCount"]) == ("bad", 1)
    await peer.nack(again)
    pass_ms(still, 100)  # PostgreSQL refuses the letter, and the redelivery stays in the broker
    await eventually(
        lambda: (
            still.subscription().dispatcher.redelivery_count(
                only_consumer(still.subscription()).dispatch.pending.oldest() or EARLIEST
            )
            == 2
        ),
        "a third delivery that stays in the broker",
    )
    await peer.ack(good)  # a poisonous message does not block others
    await publish(still, "later")
    assert text_of((await peer.has(4))[3]) == "later"
    assert stored(still, DLQ) == []
    rows(still.database_url, "ALTER TABLE vela_entry_1 DROP CONSTRAINT test_only")
    await eventually(lambda: pass_ms(still, 1000) + len(stored(still, DLQ)), "the letter")
    await letters(still, DLQ, 1)
    await eventually(lambda: backlog(still) == 1, "only the last message is unacked")


@pytest.mark.row("I16")
async def test_members_of_a_batch_become_letters_one_by_one_and_acked_ones_do_not(
    still: BrokerRun,
) -> None:
    await publish_batch(still, "a", "b", "c")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=1")
    pushes = await peer.has(3)
    await peer.ack(pushes[1])
    await peer.nack(pushes[0], pushes[2])
    assert pass_ms(still, 100) == 1  # several negative acks of one entry are one redelivery
    pushes = await peer.has(5)
    assert texts_of(pushes[3:]) == ["a", "c"]
    await peer.nack(pushes[3])
    pass_ms(still, 100)
    found = await letters(still, DLQ, 2)
    assert [letter.payload for letter in found] == [b"a", b"c"]
    assert {letter.properties["ORIGIN_MESSAGE_ID"][-2:] for letter in found} == {":0", ":2"}
    await eventually(lambda: backlog(still) == 0, "the batch is acked")


async def test_reconsume_later_puts_a_copy_off_and_it_comes_back_to_the_same_socket(still: BrokerRun) -> None:
    await publish(still, "later", key="k", properties={"a": "b"})
    peer = await JsonPeer.open(still, f"{SHARED}&retryEnable=true&ackTimeoutMillis=60000")
    (push,) = await peer.has(1)
    await peer.reconsume_later(push, 5000, a="mine", more="x")
    (letter,) = await letters(still, RETRY, 1)
    origin = letter.properties["ORIGIN_MESSAGE_ID"]
    assert letter.properties == {
        "a": "mine",
        "more": "x",
        "REAL_TOPIC": FULL,
        "ORIGIN_MESSAGE_ID": origin,
        "ORIGIN_MESSAGE_IDY_TIME": origin,
        "REAL_SUBSCRIPTION": "s",
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "5000",
    }
    (deliver_at_ms,) = one_row(still.database_url, "SELECT max(deliver_at_ms) FROM vela_entry")
    assert deliver_at_ms == still.clock.now_ms() + 5000
    await eventually(lambda: backlog(still) == 0, "the original is acked")
    pass_ms(still, 5000)
    retried = (await peer.has(2))[1]
    assert (text_of(retried), retried["key"], retried["properties"]["RECONSUMETIMES"]) == ("later", "k", "1")
    await peer.reconsume_later(retried, 0)
    pass_ms(still, 0)
    again = (await peer.has(3))[2]
    assert again["properties"]["RECONSUMETIMES"] == "2"
    assert again["properties"]["ORIGIN_MESSAGE_ID"] == origin  # the first origin is kept
    assert again["properties"]["REAL_TOPIC"] == FULL
    await peer.ack(again)


async def test_a_message_put_off_too_often_is_a_dead_letter(still: BrokerRun) -> None:
    await publish(still, "bad")
    peer = await JsonPeer.open(still, f"{SHARED}&retryEnable=true&maxRedeliverCount=2&ackTimeoutMillis=60000")
    for number in range(3):
        pushes = await peer.has(number + 1)
        await peer.reconsume_later(pushes[number], 0)
    (letter,) = await letters(still, DLQ, 1)  # named after the topic, not after its retry letter topic
    assert letter.properties["RECONSUMETIMES"] == "3"
    assert len(stored(still, RETRY)) == 2
    retry = still.subscription(RETRY)
    await eventually(lambda: retry.cursor.backlog_messages == 0, "the retry letters are acked")
    await peer.has_no_more(3)


async def test_a_retry_letter_under_way_is_finished_when_the_socket_closes(still: BrokerRun) -> None:
    await publish(still, "later")
    peer = await JsonPeer.open(still, f"{SHARED}&retryEnable=true")
    (push,) = await peer.has(1)
    await peer.reconsume_later(push, 1000)
    await peer.leave()
    await letters(still, RETRY, 1)
    await eventually(lambda: backlog(still) == 0, "the original is acked by the consumer that left")


async def test_an_ack_of_a_letter_does_not_count_after_the_cursor_was_moved(still: BrokerRun) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, SHARED)
    await peer.has(1)
    consumer = only_consumer(still.subscription())
    position = next(iter(consumer.dispatch.pending))
    ack = consumer.acker()
    await consumer.seek_position(position, None)
    from broker.subscription.requests import AckRequest

    ack([AckRequest(position)])
    assert backlog(still) == 1


async def test_an_ack_of_a_letter_counts_after_another_message_was_skipped(still: BrokerRun) -> None:
    await publish(still, "a", "b")
    peer = await JsonPeer.open(still, SHARED)
    await peer.has(2)
    subscription = still.subscription()
    consumer = only_consumer(subscription)
    first, second = consumer.dispatch.pending
    ack = consumer.acker()
    async with subscription.moves.moving(closes_consumers=False):
        subscription.cursor.skip_one(second)
        subscription.after_move()
    from broker.subscription.requests import AckRequest

    ack([AckRequest(first)])
    assert backlog(still) == 0


async def test_only_pending_messages_can_be_put_off(still: BrokerRun) -> None:
    await publish(still, "a", "b")
    peer = await JsonPeer.open(still, f"{SHARED}&retryEnable=true&receiverQueueSize=2")
    pushes = await peer.has(2)
    await peer.ack(pushes[0])
    await peer.reconsume_later(pushes[0], 0)
    await peer.reconsume_later({"messageId": MessageId(999, 5).to_base64()}, 0)
    await peer.reconsume_later(pushes[1], 0)
    await letters(still, RETRY, 1)
    assert [letter.payload for letter in stored(still, RETRY)] == [b"b"]


@pytest.mark.parametrize(
    ("query", "frame", "reason"),
    [
        ("", {"delayMillis": 1}, "retryEnable"),
        ("retryEnable=true", {}, "delayMillis"),
        ("retryEnable=true", {"delayMillis": -1}, "delayMillis"),
        ("retryEnable=true", {"delayMillis": True}, "delayMillis"),
        ("retryEnable=true", {"delayMillis": 1, "properties": {"a": 1}}, "properties"),
    ],
)
async def test_a_bad_reconsume_later_changes_nothing(
    still: BrokerRun, query: str, frame: dict[str, Any], reason: str
) -> None:
    await publish(still, "a")
    peer = await JsonPeer.open(still, f"{SHARED}&{query}")
    (push,) = await peer.has(1)
    await peer.ack(push, type="reconsumeLater", **frame)
    assert peer.peer.transport.closed is not None
    code, said = peer.peer.transport.closed
    assert (code, reason in said) == (1008, True), said
    assert backlog(still) == 1
    assert stored(still, RETRY) == []


async def test_dead_letters_have_a_subscription_when_it_is_asked_for(still: BrokerRun) -> None:
    await publish(still, "bad")
    peer = await JsonPeer.open(
        still, f"{SHARED}&maxRedeliverCount=1&deadLetterInitialSubscription=look&deadLetterTopic=grave"
    )
    await nack_through(still, peer, 2)
    await letters(still, "grave", 1)
    look = still.subscription("grave", "look")
    await eventually(lambda: look.cursor.backlog_messages == 1, "the letter waits on the subscription `look`")


async def test_the_old_names_are_used_where_their_topics_exist(still: BrokerRun) -> None:
    await still.producer("s-DLQ")
    await still.producer("s-RETRY")
    await publish(still, "bad")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=1&retryEnable=true")
    await nack_through(still, peer, 2)
    await letters(still, "s-DLQ", 1)
    assert "s" in still.topic("s-RETRY").subscriptions


async def test_letters_of_a_partition_go_to_the_letter_topics_of_the_whole_topic(still: BrokerRun) -> None:
    await publish(still, "bad", topic="t-partition-0")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=1", topic="t-partition-0")
    await nack_through(still, peer, 2)
    (letter,) = await letters(still, DLQ, 1)
    assert letter.properties["REAL_TOPIC"] == f"{FULL}-partition-0"
    assert letter.properties["ORIGIN_MESSAGE_ID"].endswith(":0")  # the last number is the partition


@pytest.mark.row("S4.31")
async def test_when_every_due_message_is_a_dead_letter_nothing_else_is_redelivered(still: BrokerRun) -> None:
    await publish(still, "bad", "held")
    peer = await JsonPeer.open(still, f"{SHARED}&maxRedeliverCount=1")
    bad, _ = await peer.has(2)
    await peer.nack(bad)
    pass_ms(still, 100)
    await peer.nack((await peer.has(3))[2])
    pass_ms(still, 100)
    await letters(still, DLQ, 1)
    await eventually(lambda: backlog(still) == 1, "the dead letter's original is acked")
    await peer.has_no_more(3)


@pytest.mark.row("S4.32")
@pytest.mark.parametrize("option", ["", "&retryOnAckTimeout=true"])
async def test_an_ack_timeout_makes_a_retry_letter_only_where_it_is_asked_for(
    still: BrokerRun, option: str
) -> None:
    await publish(still, "slow")
    peer = await JsonPeer.open(still, f"{SHARED}&retryEnable=true&ackTimeoutMillis=1000{option}")
    await peer.has(1)
    pass_ms(still, 1100)
    again = (await peer.has(2))[1]
    if option:
        assert (again["redeliveryCount"], again["properties"]["RECONSUMETIMES"]) == (0, "1")
        assert len(stored(still, RETRY)) == 1
        await eventually(lambda: backlog(still) == 0, "the original is acked")
    else:
        assert (again["redeliveryCount"], again["properties"]) == (1, {})
        assert stored(still, RETRY) == []


@pytest.mark.row("S4.2")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("subscriptionType=Exclusive&maxRedeliverCount=3", "maxRedeliverCount has no effect on Exclusive"),
        ("subscriptionType=Shared&retryEnable=true", "retryEnable without ackTimeoutMillis"),
        (
            "subscriptionType=Exclusive&retryEnable=true&ackTimeoutMillis=1000",
            "retry letters are not delayed there",
        ),
        ("subscriptionType=Shared&retryEnable=true&ackTimeoutMillis=1000&maxRedeliverCount=3", ""),
    ],
)
async def test_impossible_options_are_reported(
    still: BrokerRun, caplog: pytest.LogCaptureFixture, query: str, words: str
) -> None:
    for _ in range(2):
        peer = await JsonPeer.open(still, query)
        assert words in peer.headers.get("X-Vela-Warning", "")
        assert ("X-Vela-Warning" in peer.headers) == bool(words)
        await peer.leave()
    said = [
        record
        for record in caplog.records
        if "has no effect" in record.message or "retryEnable" in record.message
    ]
    assert sum(words in record.message for record in said) == (1 if words else len(said))
    series = (
        f'vela_subscription_option_warnings_total{{cluster="vela",namespace="public/default",topic="{FULL}"'
    )
    (line,) = [each for each in still.metrics_text().splitlines() if each.startswith(series)]
    assert line.endswith(" 2" if words else " 0")


async def test_a_name_that_cannot_be_a_topic_is_refused_at_the_handshake(still: BrokerRun) -> None:
    peer = JsonPeer(still, f"{SHARED}&maxRedeliverCount=1", topic="t", subscription="a b")
    status, reason = await peer.peer.refused()
    assert status == 400
    assert "a b-DLQ" in reason


@pytest.mark.parametrize("option", ["maxRedeliverCount=1", "retryEnable=true&ackTimeoutMillis=1000"])
async def test_a_default_name_that_is_too_long_is_refused_at_the_handshake(
    still: BrokerRun, option: str
) -> None:
    peer = JsonPeer(still, f"{SHARED}&{option}", topic="t", subscription="s" * 1000)
    status, reason = await peer.peer.refused()
    assert status == 400
    assert "-letter topic, made of the names of topic and subscription, would have a name of 10" in reason


@pytest.mark.row("I16")
async def test_a_crash_between_the_letter_and_its_ack_repeats_and_loses_nothing(broker_url: str) -> None:
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as first:
        await publish(first, "bad")
        peer = await JsonPeer.open(first, f"{SHARED}&maxRedeliverCount=1")
        first.proxy.trap("UPDATE vela_cursor c SET mark_delete_ledger = u.", Moment.HOLD_REQUEST)
        await nack_through(first, peer, 2)
        await letters(first, DLQ, 1)
        await eventually(lambda: backlog(first) == 0, "acked in memory")
    async with running(broker_url, clock=ManualClock(), wheel_enabled=False) as second:
        peer = await JsonPeer.open(second, f"{SHARED}&maxRedeliverCount=1")
        pushes = await nack_through(second, peer, 2)
        assert [push["redeliveryCount"] for push in pushes] == [0, 1]
        assert [letter.payload for letter in await letters(second, DLQ, 2)] == [b"bad", b"bad"]
        await eventually(lambda: backlog(second) == 0, "acked")
