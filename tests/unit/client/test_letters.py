"""Which messages become letters, and when the original is acked. No message is lost (I16)."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.waiting import until
from tests.unit.client.ack_link import FakeLink, chunked_message, message, messages
from tests.unit.client.letters import Consumer, FakeBox, dead_after
from vela.wire.letters import DeadLetterPolicy, DeadLetterRule


@pytest.mark.row("I16")
async def test_the_last_delivery_that_is_refused_becomes_a_letter_and_is_then_acked() -> None:
    owner = dead_after(2)
    owner.box.gate = asyncio.Event()
    for count in range(3):
        (shown,) = owner.receive(message(1, redeliveries=count))
        owner.acks.negative_acknowledge(shown)
        owner.timers.advance(140)
    await owner.settled()
    assert owner.said() == [("again", 1), ("again", 1)], "the third time nothing is asked for, nor acked yet"
    owner.box.gate.set()
    await until(lambda: bool(owner.box.stored), "the letter")
    await owner.settled()
    assert owner.said() == [("ack", 1)]
    assert owner.dropped == [(1, 1)] * 2
    ((kind, letter),) = owner.box.stored
    assert kind == "dead"
    assert letter.properties["ORIGIN_MESSAGE_ID"] == "1:1:-1"
    assert letter.properties["REAL_SUBSCRIPTION"] == "s"


@pytest.mark.row("I16")
async def test_a_message_delivered_too_often_becomes_a_letter_and_is_not_shown() -> None:
    owner = dead_after(2)
    assert owner.receive(*messages(1, 3, redeliveries=3)) == []
    await owner.settled()
    assert owner.said() == [("ack", 1)]
    assert [letter.properties["ORIGIN_MESSAGE_ID"] for _, letter in owner.box.stored] == [
        "1:1:-1:0",
        "1:1:-1:1",
        "1:1:-1:2",
    ]
    assert owner.permits == 3


@pytest.mark.row("I16")
async def test_all_chunks_of_a_message_come_again_as_often_as_its_letter_fails() -> None:
    owner = dead_after(1)
    owner.box.fails = 3
    for _ in range(2):
        dead = chunked_message(1, 2, 3)
        dead.entry.redelivery_count = 2
        assert owner.receive(dead) == []
        await owner.settled()
        owner.timers.advance(60_000)
        assert owner.said() == [("again", 1, 2, 3)]


async def test_with_the_go_dead_letter_rule_the_application_sees_one_delivery_fewer() -> None:
    owner = Consumer(FakeBox(DeadLetterPolicy(max_redeliver_count=2, rule=DeadLetterRule.GO)))
    assert len(owner.receive(message(1, redeliveries=1))) == 1
    assert owner.receive(message(2, redeliveries=2)) == []
    await owner.settled()
    assert len(owner.box.stored) == 1


async def test_messages_of_several_entries_are_told_apart() -> None:
    owner = dead_after(2)
    first, dead, last = message(1), message(2, redeliveries=3), message(3)
    assert owner.receive(first, dead, last) == [first, last]
    await owner.settled()


@pytest.mark.row("I16")
async def test_acked_messages_of_a_batch_become_no_letters() -> None:
    owner = dead_after(1)
    acked, refused, waiting = owner.receive(*messages(1, 3, redeliveries=1))
    owner.acks.acknowledge(acked)
    owner.acks.negative_acknowledge(refused)
    owner.timers.advance(140)
    await owner.settled()
    ids = [letter.properties["ORIGIN_MESSAGE_ID"] for _, letter in owner.box.stored]
    assert ids == ["1:1:-1:1", "1:1:-1:2"]
    assert owner.said() == [("ack", 1)]
    del waiting


@pytest.mark.row("I16")
async def test_waiting_messages_of_a_batch_at_the_limit_are_shown_and_become_no_letters() -> None:
    owner = dead_after(1)
    (refused,) = owner.receive(*messages(1, 4, redeliveries=1), take=1)
    owner.acks.negative_acknowledge(refused)
    await owner.pass_time(140)
    assert (owner.letters_of(), owner.said()) == ([0], [])
    good, bad = owner.take(2)
    owner.acks.acknowledge(good)
    owner.acks.negative_acknowledge(bad)
    await owner.pass_time(140)
    assert (owner.letters_of(), owner.said()) == ([2], [])
    (last,) = owner.take()
    owner.acks.acknowledge(last)
    assert (owner.letters_of(), owner.said()) == ([], [("ack", 1)])


@pytest.mark.row("I16")
async def test_a_message_refused_while_letters_are_under_way_becomes_one_afterwards() -> None:
    owner = dead_after(1)
    owner.box.gate = asyncio.Event()
    (first,) = owner.receive(*messages(1, 3, redeliveries=1), take=1)
    owner.acks.negative_acknowledge(first)
    await owner.pass_time(140)
    (second,) = owner.take(1)
    owner.acks.negative_acknowledge(second)
    await owner.pass_time(140)
    owner.box.gate.set()
    await owner.settled()
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0, 1], [], 1)


@pytest.mark.row("I16")
async def test_while_a_batch_waits_a_letter_that_fails_is_written_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = dead_after(1)
    owner.box.fails = 2
    (refused,) = owner.receive(*messages(1, 3, redeliveries=1), take=1)
    owner.acks.negative_acknowledge(refused)
    for ms in (140, 0, 999):
        await owner.pass_time(ms)
    assert owner.letters_of() == []
    await owner.pass_time(1)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0], [], 2)
    assert ["will try again" in text for text in caplog.messages] == [True, True]


async def test_a_message_refused_by_its_id_while_it_waits_is_shown() -> None:
    owner = dead_after(1)
    owner.receive(*messages(1, 2, redeliveries=1), take=0)
    owner.acks.negative_acknowledge(owner.queue[1].message_id())
    await owner.pass_time(140)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([], [], 2)


async def test_messages_shown_after_a_batchs_first_letters_have_their_own_ack_timeout() -> None:
    owner = dead_after(1, ack_timeout_ms=1000, ack_timeout_tick_ms=100)
    (refused,) = owner.receive(*messages(1, 3, redeliveries=1), take=1)
    owner.acks.negative_acknowledge(refused)
    owner.take(1)
    await owner.pass_time(140)
    assert owner.letters_of() == [0, 1]
    await owner.pass_time(700)
    owner.take(1)
    await owner.pass_time(900)
    assert owner.letters_of() == []
    await owner.pass_time(300)
    assert (owner.letters_of(), owner.said()) == ([2], [("ack", 1)])


@pytest.mark.parametrize("fails_before_the_link_is_lost", [True, False])
async def test_a_failed_letter_does_not_request_an_entry_that_was_redelivered(
    fails_before_the_link_is_lost: bool,
) -> None:
    owner = dead_after(1)
    owner.box.fails = 2
    owner.receive(message(2, redeliveries=2))
    await owner.settled()
    owner.box.gate = asyncio.Event()
    (refused,) = owner.receive(message(1, redeliveries=1))
    owner.acks.negative_acknowledge(refused)
    await owner.pass_time(140)
    if fails_before_the_link_is_lost:
        owner.box.gate.set()
        await owner.settled()
    owner.link = FakeLink()
    owner.acks.attached()
    owner.receive(message(1, redeliveries=1))
    owner.box.gate.set()
    await owner.settled()
    await owner.pass_time(60_000)
    assert (owner.letters_of(), owner.said()) == ([], [])


@pytest.mark.row("I22")
async def test_a_message_acked_while_its_letter_is_under_way_is_not_asked_for_when_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = dead_after(1)
    owner.box.gate = asyncio.Event()
    owner.box.fails = 1
    (slow,) = owner.receive(message(1, redeliveries=1))
    owner.acks.negative_acknowledge(slow)
    await owner.pass_time(140)
    owner.acks.acknowledge(slow)
    owner.box.gate.set()
    await owner.settled()
    await owner.pass_time(60_000)
    assert owner.said() == [("ack", 1)]
    assert ["will try again" in text for text in caplog.messages] == [False]


@pytest.mark.row("I22")
async def test_a_message_acked_after_its_letter_failed_is_not_asked_for() -> None:
    owner = dead_after(1)
    owner.box.fails = 2
    for entry in (1, 2):
        (slow,) = owner.receive(message(entry, redeliveries=1))
        owner.acks.negative_acknowledge(slow)
        await owner.pass_time(140)
    assert owner.said() == [("again", 1)]
    owner.acks.acknowledge(slow)
    await owner.pass_time(60_000)
    assert owner.said() == [("ack", 2)]


@pytest.mark.row("I16")
async def test_after_a_failed_letter_the_message_comes_again_at_once_and_then_less_often() -> None:
    owner = dead_after(1)
    owner.box.fails = 3
    said = []
    for wait_ms in (0, 1000, 2000):
        assert owner.receive(message(1, redeliveries=2)) == []
        await owner.settled()
        owner.timers.advance(max(0, wait_ms - 1))
        said.append(owner.said())
        owner.timers.advance(1)
        said.append(owner.said())
    assert said == [[("again", 1)], [], [], [("again", 1)], [], [("again", 1)]]
    owner.receive(message(1, redeliveries=2))
    await owner.settled()
    assert owner.said() == [("ack", 1)]
    owner.box.fails = 1
    owner.receive(message(2, redeliveries=2))
    await owner.settled()
    owner.timers.advance(1)
    assert owner.said() == [("again", 2)], "after a success it begins again"


async def test_a_letter_under_way_is_not_begun_twice() -> None:
    owner = dead_after(1)
    owner.box.gate = asyncio.Event()
    owner.receive(message(1, redeliveries=2))
    owner.link = FakeLink()
    owner.acks.attached()
    owner.receive(message(1, redeliveries=2))
    owner.box.gate.set()
    await owner.settled()
    assert len(owner.box.stored) == 1
    assert owner.permits == 2
    assert owner.said() == [("ack", 1)], "it is acked: there is nothing to ask for"
