"""Which messages go to the retry letter topic, and when the original is acked (I16)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.client.ack_link import chunked_message, message, messages
from tests.unit.client.letters import Consumer, FakeBox, dead_after
from vela.errors import AlreadyClosed, InvalidConfiguration, ProducerQueueIsFull
from vela.wire.letters import DeadLetterPolicy


def retrying(count: int = 16, *, on_ack_timeout: bool = False, **options: Any) -> Consumer:
    policy = DeadLetterPolicy(max_redeliver_count=count)
    return Consumer(FakeBox(policy, retry=True, on_ack_timeout=on_ack_timeout), **options)


async def test_reconsume_later_writes_a_copy_then_acks() -> None:
    owner = retrying()
    (shown,) = owner.receive(message(1))
    shown.body.properties["colour"] = "red"
    await owner.letters.reconsume_later(shown, timedelta(seconds=5), {"why": "busy"})
    ((kind, letter),) = owner.box.stored
    assert kind == "retry"
    assert letter.deliver_at_ms is not None
    wanted = {"colour": "red", "why": "busy", "RECONSUMETIMES": "1", "DELAY_TIME": "5000"}
    assert wanted.items() <= letter.properties.items()
    assert owner.said() == [("ack", 1)]


async def test_reconsume_later_more_often_than_allowed_is_a_dead_letter() -> None:
    owner = retrying(3)
    kinds = []
    for count in range(1, 5):
        (shown,) = owner.receive(message(count))
        shown.body.properties["RECONSUMETIMES"] = str(count - 1)
        await owner.letters.reconsume_later(shown, 100, None)
        kinds.append(owner.box.stored[-1][0])
    assert kinds == ["retry", "retry", "retry", "dead"]
    assert owner.box.stored[-1][1].deliver_at_ms is None


@pytest.mark.row("I16")
async def test_a_failed_reconsume_later_raises_and_the_message_is_redelivered() -> None:
    owner = retrying()
    owner.box.fails = 1
    (shown,) = owner.receive(message(1))
    with pytest.raises(ProducerQueueIsFull):
        await owner.letters.reconsume_later(shown, 100, None)
    owner.timers.advance(1)
    assert owner.said() == [("again", 1)]


@pytest.mark.row("I16")
async def test_after_a_failed_reconsume_later_all_chunks_of_the_message_come_again() -> None:
    owner = retrying()
    owner.box.fails = 1
    (shown,) = owner.receive(chunked_message(1, 2, 3))
    with pytest.raises(ProducerQueueIsFull):
        await owner.letters.reconsume_later(shown, 100, None)
    owner.timers.advance(1)
    assert owner.said() == [("again", 1, 2, 3)]


async def test_reconsume_later_that_is_cancelled_goes_on() -> None:
    owner = retrying()
    owner.box.gate = asyncio.Event()
    (shown,) = owner.receive(message(1))
    waiting = asyncio.ensure_future(owner.letters.reconsume_later(shown, 100, None))
    await owner.settled()
    waiting.cancel()
    owner.box.gate.set()
    await owner.settled()
    assert owner.said() == [("ack", 1)]


async def test_a_negative_ack_of_a_neighbour_of_a_letter_is_not_forgotten() -> None:
    owner = retrying()
    owner.box.gate = asyncio.Event()
    later, refused = owner.receive(*messages(1, 2))
    putting_off = asyncio.ensure_future(owner.letters.reconsume_later(later, 100, None))
    await owner.settled()
    owner.acks.negative_acknowledge(refused)
    owner.timers.advance(140)
    assert owner.said() == []
    owner.box.gate.set()
    await putting_off
    assert owner.said() == [("again", 1)]


async def test_reconsume_later_needs_retry_letters_and_an_open_consumer() -> None:
    (shown,) = (owner := dead_after(1)).receive(message(1))
    with pytest.raises(InvalidConfiguration, match="retry_enable"):
        await owner.letters.reconsume_later(shown, 100, None)
    owner = retrying()
    with pytest.raises(InvalidConfiguration, match="-1"):
        await owner.letters.reconsume_later(shown, -1, None)
    await owner.letters.close(5)
    await owner.letters.close(5)
    assert owner.box.users == 0
    with pytest.raises(AlreadyClosed):
        await owner.letters.reconsume_later(shown, 100, None)


@pytest.mark.row("S4.32")
@pytest.mark.parametrize("on_ack_timeout", [True, False])
async def test_if_chosen_an_ack_timeout_puts_a_message_off(on_ack_timeout: bool) -> None:
    owner = retrying(on_ack_timeout=on_ack_timeout, ack_timeout_ms=1000)
    owner.receive(message(1))
    owner.timers.advance(3000)
    await owner.settled()
    assert [kind for kind, _ in owner.box.stored] == (["retry"] if on_ack_timeout else [])
    assert owner.said() == ([("ack", 1)] if on_ack_timeout else [("again", 1)])


@pytest.mark.row("S4.32")
async def test_waiting_messages_of_a_batch_are_not_put_off() -> None:
    owner = retrying(on_ack_timeout=True, ack_timeout_ms=1000)
    owner.receive(*messages(1, 3), take=2)
    await owner.pass_time(3000)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0, 1], [], 1)
    owner.take()
    await owner.pass_time(3000)
    assert (owner.letters_of(), owner.said()) == ([2], [("ack", 1)])


@pytest.mark.row("S4.32")
async def test_while_a_batch_waits_a_retry_letter_of_a_timeout_that_fails_is_written_again() -> None:
    owner = retrying(on_ack_timeout=True, ack_timeout_ms=1000)
    owner.box.fails = 2
    owner.receive(*messages(1, 3), take=1)
    for ms in (3000, 0, 999):
        await owner.pass_time(ms)
    assert owner.letters_of() == []
    await owner.pass_time(1)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0], [], 2)


@pytest.mark.row("S4.32")
async def test_a_negative_ack_while_the_letter_of_a_timeout_fails_requests_the_batch() -> None:
    owner = retrying(on_ack_timeout=True, ack_timeout_ms=1000)
    owner.box.gate, owner.box.fails = asyncio.Event(), 1
    owner.receive(*messages(1, 3), take=1)
    await owner.pass_time(3000)
    (refused,) = owner.take(1)
    owner.acks.negative_acknowledge(refused)
    await owner.pass_time(140)
    owner.box.gate.set()
    await owner.settled()
    await owner.pass_time(1)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([], [("again", 1)], 0)


@pytest.mark.row("S4.32")
async def test_a_timeout_during_letters_puts_off_messages_shown_since() -> None:
    owner = retrying(on_ack_timeout=True, ack_timeout_ms=1000)
    owner.box.gate = asyncio.Event()
    owner.receive(*messages(1, 3), take=1)
    await owner.pass_time(3000)
    owner.take(1)
    await owner.pass_time(3000)
    owner.box.gate.set()
    await owner.settled()
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0, 1], [], 1)


@pytest.mark.row("S4.32")
async def test_a_negative_ack_is_still_a_redelivery() -> None:
    owner = retrying(on_ack_timeout=True, ack_timeout_ms=1000)
    (shown,) = owner.receive(message(1))
    owner.acks.negative_acknowledge(shown)
    owner.timers.advance(3000)
    await owner.settled()
    assert owner.said() == [("again", 1)]


async def test_closing_finishes_the_letters_under_way() -> None:
    owner = dead_after(1)
    owner.box.gate = asyncio.Event()
    owner.receive(message(1, redeliveries=2))
    closing = asyncio.ensure_future(owner.letters.close(5))
    await owner.settled()
    assert not closing.done()
    owner.box.gate.set()
    await closing
    assert owner.said() == [("ack", 1)]


@pytest.mark.row("I16")
@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["nack", "ack", "later", "leave"]), st.integers(0, 2)),
        min_size=1,
        max_size=25,
    )
)
def test_every_message_ends_acked_or_in_a_letter_and_is_acked_only_after_it(
    steps: list[tuple[str, int]],
) -> None:
    asyncio.run(_live(steps))


async def _live(steps: list[tuple[str, int]]) -> None:
    """Take these steps with one message. The broker redelivers it when asked, and counts the redeliveries."""
    owner = retrying(2, ack_timeout_ms=1000, ack_timeout_tick_ms=1000)
    count, acked, by_application = 0, False, False
    shown = owner.receive(message(1))
    for step, fails in steps:
        owner.box.fails = fails
        if shown and step == "ack":
            owner.acks.acknowledge(shown[0])
            by_application = True
        elif shown and step == "nack":
            owner.acks.negative_acknowledge(shown[0])
        elif shown and step == "later":
            await asyncio.gather(owner.letters.reconsume_later(shown[0], 0, None), return_exceptions=True)
        for _ in range(200):
            owner.timers.advance(1000)
            await owner.settled()
            said = owner.said()
            acked |= ("ack", 1) in said
            if acked:
                break
            if ("again", 1) in said:
                count += 1
                shown = owner.receive(message(1, redeliveries=count))
                break
        if acked:
            break
    assert acked <= (by_application or bool(owner.box.stored)), "acked, and nobody has it"
    for _ in range(300):
        if acked:
            break
        owner.timers.advance(60_000)
        await owner.settled()
        said = owner.said()
        acked = ("ack", 1) in said
        if ("again", 1) in said:
            count += 1
            owner.receive(message(1, redeliveries=count))
    assert acked, "lost"
    assert by_application or owner.box.stored


async def test_reconsume_later_says_that_the_consumer_was_closed_before_the_copy_was_stored() -> None:
    owner = retrying()
    owner.box.gate = asyncio.Event()
    (shown,) = owner.receive(message(1))
    putting_off = asyncio.create_task(owner.letters.reconsume_later(shown, 0, None))
    await owner.settled()
    await owner.letters.close(0)
    with pytest.raises(AlreadyClosed):
        await putting_off
