"""What becomes a letter, and what then becomes of the original; never is a message neither (I16)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.waiting import until
from tests.unit.client.ack_link import FakeConsumer, FakeLink, message, messages
from vela.aio.letters.letters import Letters
from vela.core.acks.options import AckOptions
from vela.core.producing.outgoing import Outgoing
from vela.errors import AlreadyClosed, InvalidConfiguration, ProducerQueueIsFull
from vela.message import Message
from vela.wire.letters import DeadLetterPolicy, DeadLetterRule


class FakeBox:
    """Stores letters when it is told to; `fails` of them are refused first."""

    def __init__(
        self, policy: DeadLetterPolicy, *, retry: bool = False, on_ack_timeout: bool = False
    ) -> None:
        self.policy = policy
        self.retry_topic = "persistent://public/default/t-s-RETRY" if retry else None
        self.on_ack_timeout = on_ack_timeout
        self.turns = asyncio.Semaphore(100)
        self.subscription = "s"
        self.stored: list[tuple[str, Outgoing]] = []
        self.fails = 0
        self.gate: asyncio.Event | None = None
        self.users = 0

    async def send_retry(self, letter: Outgoing, *, topic: str, consumer_name: str) -> None:
        await self._send("retry", letter)

    async def send_dead(self, letter: Outgoing, *, topic: str, consumer_name: str) -> None:
        await self._send("dead", letter)

    async def _send(self, kind: str, letter: Outgoing) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise ProducerQueueIsFull("no room")
        self.stored.append((kind, letter))

    def open(self) -> None:
        self.users += 1

    async def close(self, within_s: float) -> None:
        self.users -= 1


class Consumer(FakeConsumer):
    """With letters."""

    def __init__(self, box: FakeBox, **options: Any) -> None:
        super().__init__(AckOptions(is_shared=True, group_ms=0, negative_ack_delay_ms=100, **options))
        self.box = box
        self.letters = Letters(self, box, self.timers)  # type: ignore[arg-type]
        self.acks.letters = self.letters
        self.permits = 0
        self.queue: list[Message] = []

    def consumer_name(self) -> str:
        return "c"

    def passed_over(self, passed: Sequence[Message]) -> None:
        self.permits += len(passed)

    def waiting(self, positions: Collection[tuple[int, int]]) -> list[Message]:
        return [each for each in self.queue if (1, each.entry.entry_id) in positions]

    def letters_of(self) -> list[int]:
        """Places in the batch of what was stored since the last call."""
        stored, self.box.stored = self.box.stored, []
        return [int(letter.properties["ORIGIN_MESSAGE_ID"].split(":")[3]) for _, letter in stored]

    async def pass_time(self, ms: int) -> None:
        self.timers.advance(ms)
        await self.settled()

    def receive(self, *arrived: Message, take: int | None = None) -> list[Message]:
        """They come, and so many of them are taken; None = all."""
        self.queue += self.letters.arrived(list(arrived))
        return self.take(take)

    def take(self, count: int | None = None) -> list[Message]:
        taken, self.queue = self.queue[:count], self.queue[len(self.queue[:count]) :]
        for each in taken:
            self.acks.taken(each)
        return taken

    def redelivered_locally(self, positions: Sequence[tuple[int, int]]) -> None:
        super().redelivered_locally(positions)
        self.queue = [each for each in self.queue if (1, each.entry.entry_id) not in positions]

    async def settled(self) -> None:
        """Nothing is on its way."""
        for _ in range(20):
            await asyncio.sleep(0)


def dead_after(count: int, **options: Any) -> Consumer:
    return Consumer(FakeBox(DeadLetterPolicy(max_redeliver_count=count)), **options)


def retrying(count: int = 16, *, on_ack_timeout: bool = False, **options: Any) -> Consumer:
    policy = DeadLetterPolicy(max_redeliver_count=count)
    return Consumer(FakeBox(policy, retry=True, on_ack_timeout=on_ack_timeout), **options)


@pytest.mark.row("I16")
async def test_the_last_delivery_that_is_refused_becomes_a_letter_and_is_then_acked() -> None:
    owner = dead_after(2)
    owner.box.gate = asyncio.Event()
    for count in range(3):
        (shown,) = owner.receive(message(1, redeliveries=count))
        owner.acks.negative_acknowledge(shown)
        owner.timers.advance(140)
    await owner.settled()
    assert owner.said() == [("again", 1), ("again", 1)], (
        "S4.31: the third time nothing is asked for, nor acked yet"
    )
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
async def test_one_delivered_too_often_is_a_letter_that_nobody_sees() -> None:
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


async def test_with_the_rule_of_go_the_application_sees_one_delivery_fewer() -> None:
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
async def test_what_of_a_batch_was_acked_makes_no_letter() -> None:
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
async def test_what_waits_of_a_batch_at_the_limit_makes_no_letter_and_is_shown() -> None:
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
async def test_what_is_shown_and_refused_while_letters_are_under_way_is_one_afterwards() -> None:
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
async def test_while_a_batch_waits_a_letter_that_fails_is_written_again() -> None:
    owner = dead_after(1)
    owner.box.fails = 2
    (refused,) = owner.receive(*messages(1, 3, redeliveries=1), take=1)
    owner.acks.negative_acknowledge(refused)
    for ms in (140, 0, 999):
        await owner.pass_time(ms)
    assert owner.letters_of() == []
    await owner.pass_time(1)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0], [], 2)


async def test_a_message_refused_by_its_id_while_it_waits_is_shown() -> None:
    owner = dead_after(1)
    owner.receive(*messages(1, 2, redeliveries=1), take=0)
    owner.acks.negative_acknowledge(owner.queue[1].message_id())
    await owner.pass_time(140)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([], [], 2)


async def test_what_is_shown_of_a_batch_after_its_first_letters_has_its_own_ack_timeout() -> None:
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
async def test_what_came_again_over_another_link_is_not_asked_for_because_a_letter_failed(
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
async def test_a_message_acked_while_its_letter_is_under_way_is_not_asked_for_when_that_fails() -> None:
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
async def test_a_letter_that_fails_brings_the_message_again_at_once_and_then_less_often() -> None:
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
    assert owner.said() == [("again", 2)], "after a success it begins anew"


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
async def test_reconsume_later_that_fails_says_so_and_the_message_comes_again() -> None:
    owner = retrying()
    owner.box.fails = 1
    (shown,) = owner.receive(message(1))
    with pytest.raises(ProducerQueueIsFull):
        await owner.letters.reconsume_later(shown, 100, None)
    owner.timers.advance(1)
    assert owner.said() == [("again", 1)]


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
async def test_by_choice_an_ack_timeout_puts_a_message_off(on_ack_timeout: bool) -> None:
    owner = retrying(on_ack_timeout=on_ack_timeout, ack_timeout_ms=1000)
    owner.receive(message(1))
    owner.timers.advance(3000)
    await owner.settled()
    assert [kind for kind, _ in owner.box.stored] == (["retry"] if on_ack_timeout else [])
    assert owner.said() == ([("ack", 1)] if on_ack_timeout else [("again", 1)])


@pytest.mark.row("S4.32")
async def test_what_waits_of_a_batch_is_not_put_off() -> None:
    owner = retrying(on_ack_timeout=True, ack_timeout_ms=1000)
    owner.receive(*messages(1, 3), take=2)
    await owner.pass_time(3000)
    assert (owner.letters_of(), owner.said(), len(owner.queue)) == ([0, 1], [], 1)
    owner.take()
    await owner.pass_time(3000)
    assert (owner.letters_of(), owner.said()) == ([2], [("ack", 1)])


@pytest.mark.row("S4.32")
async def test_a_timeout_while_letters_are_under_way_puts_off_what_was_shown_since() -> None:
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
async def test_a_negative_ack_is_a_redelivery_all_the_same() -> None:
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
    """One message against a broker that redelivers what is asked for and counts."""
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
