"""Batches at the dead-letter limit: an application, its letters, a consumer's queue and a broker, in any interleaving.

Whatever happens, each message is acked by the application or stored as a letter. A message that was not shown becomes
a letter only if its entry arrived over the limit (I16).

Over 400 lines: one model; every rule changes the same few sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.doors.binary.wire import events
from tests.support.examples import model_settings
from tests.unit.client.ack_link import FakeConsumer, FakeLink, messages
from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.aio.letters.letters import Letters
from vela.core.acks.options import AckOptions
from vela.core.producing.outgoing import Outgoing
from vela.errors import ProducerQueueIsFull
from vela.message import Message, ReceivedEntry
from vela.wire.binary import commands
from vela.wire.letters import ORIGIN_MESSAGE_ID, DeadLetterPolicy

SIZES = (3, 0, 3, 2)  # messages of the entries; 0 = not a batch
LIMIT = 1
COUNTS = (1, 0, 0, 1)  # redeliveries at the beginning
DELAY_MS = 300
TIMEOUT_MS = 1000
TURNS = 12  # turns of the event loop, after which nothing changes


def full(entry: int) -> int:
    return (1 << max(SIZES[entry], 1)) - 1


def bit(message: Message) -> int:
    return 1 << max(message.body.batch_index, 0)


class Letter:
    """A letter that is being written."""

    def __init__(self, entry: int, bit: int, begun_in: int) -> None:
        self.entry = entry
        self.bit = bit
        self.begun_in = begun_in  # the value of `World.rounds` at its beginning
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Post:
    """Stands in for `LetterBox`. Letters wait until the broker stores or refuses them."""

    def __init__(self, world: World, *, retry: bool) -> None:
        self.policy = DeadLetterPolicy(max_redeliver_count=LIMIT)
        self.retry_topic = "persistent://public/default/t-s-RETRY" if retry else None
        self.on_ack_timeout = retry
        self.turns = asyncio.Semaphore(100)
        self.subscription = "s"
        self.under_way: list[Letter] = []
        self._world = world

    def open(self) -> None:
        """Do nothing."""

    async def close(self, within_s: float) -> None:
        """Do nothing."""

    async def send_retry(self, letter: Outgoing, *, topic: str, version: bytes, consumer_name: str) -> None:
        """Write the letter, and wait until it is stored."""
        await self.send_dead(letter, topic=topic, version=version, consumer_name=consumer_name)

    async def send_dead(self, letter: Outgoing, *, topic: str, version: bytes, consumer_name: str) -> None:
        """Write the letter, and wait until it is stored."""
        parts = [int(part) for part in letter.properties[ORIGIN_MESSAGE_ID].split(":")]
        written = Letter(parts[1], 1 << (parts[3] if len(parts) > 3 else 0), self._world.rounds)
        self._world.is_written(written)
        self.under_way.append(written)
        await written.stored


class World(FakeConsumer):
    """A consumer with its queue, and the broker's half: `remaining`, `counts`, `charged`."""

    def __init__(self, *, batch_index_acks: bool, has_timeout: bool, retry: bool, every_send: bool) -> None:
        super().__init__(
            AckOptions(
                is_shared=True,
                batch_index_acks=batch_index_acks,
                negative_ack_delay_ms=DELAY_MS,
                ack_timeout_ms=TIMEOUT_MS if has_timeout else 0,
                ack_timeout_tick_ms=100,
            )
        )
        self.batch_index_acks = batch_index_acks
        self.every_send = every_send
        self.box = Post(self, retry=retry)
        self.letters = Letters(self, self.box, self.timers, "c")  # type: ignore[arg-type]
        self.acks.letters = self.letters
        self.queue = ReceiveQueue(
            self._taken, lambda message: message.entry.generation == self.links, lambda: None
        )
        self.remaining = [full(entry) for entry in range(len(SIZES))]
        self.counts = list(COUNTS)
        self.links = 0
        self.rounds = 0  # raised when everything unacked is delivered again
        self.charged = 0  # permits that are not restored
        self.acked = [0] * len(SIZES)  # bits that the application has ever acked
        self.stored = [0] * len(SIZES)  # bits of which a letter has ever been stored
        self.seen = [0] * len(SIZES)  # bits that the application was ever given
        self.bypassing = [0] * len(SIZES)  # bits that arrived over the limit
        self.shown_here = [0] * len(SIZES)  # bits that the application was given since the entry came last
        # A copy was shown although an earlier copy had been acked.
        self.has_second_copy = [False] * len(SIZES)
        self.stored_here = [0] * len(SIZES)  # bits of letters begun and stored in this round
        # Bits that are neither acked nor in a letter since the entry came last.
        self.unhandled = [0] * len(SIZES)
        self.latest: list[ReceivedEntry | None] = [None] * len(SIZES)
        self.held: list[Message] = []
        self.attach()

    # -- the broker

    def attach(self) -> None:
        self.queue.remove(lambda _: True)
        self.links += 1
        self.link = FakeLink()
        self.charged = 0
        self._all_anew()
        self.acks.attached()
        self.hear()
        for entry in range(len(SIZES)):
            if self.every_send and self.links > 1:
                self.counts[entry] += 1
            self.deliver(entry)

    def _all_anew(self) -> None:
        self.rounds += 1
        self.stored_here = [0] * len(SIZES)

    def deliver(self, entry: int) -> None:
        remaining, size, count = self.remaining[entry], SIZES[entry], self.counts[entry]
        if not remaining:
            return
        acked = self.acks.delivered(1, entry, size, remaining if remaining != full(entry) else None)
        shown = [each for each in messages(entry, size, redeliveries=count) if remaining & ~acked & bit(each)]
        if not shown:
            return
        self.charged += len(shown)
        bits = sum(map(bit, shown))
        self.shown_here[entry] &= ~bits
        self.unhandled[entry] = bits
        # In this case, the whole batch comes again, with the messages that were put off.
        if not self.batch_index_acks and count <= LIMIT:
            self.stored_here[entry] &= ~bits
        if count > LIMIT:
            self.bypassing[entry] |= bits
        self.latest[entry] = shown[0].entry
        shown[0].entry.generation = self.links
        self.queue.put(self.letters.arrived(shown))

    def hear(self) -> None:
        """Let the broker carry out the commands that the consumer sent."""
        while self.link is not None and self.link.heard:
            event = self.link.heard.pop(0)
            if isinstance(event, events.Ack):
                for each in event.ids:
                    gone = self.remaining[each.entry_id] & ~(each.ack_set or 0)
                    kept = self.acked[each.entry_id] | self.stored[each.entry_id]
                    assert not gone & ~kept, "acked, and nobody has it"
                    self.remaining[each.entry_id] &= ~gone
            elif isinstance(event, events.Redeliver):
                for entry in [each for _, each in event.positions] or range(len(SIZES)):
                    is_wanted = self.unhandled[entry] or self.has_second_copy[entry]
                    assert is_wanted or not event.positions, "asked for what is acked (I22)"
                    self.counts[entry] += bool(self.remaining[entry])
                    self.deliver(entry)

    # -- the consumer

    def waiting(self, positions: Collection[tuple[int, int]]) -> list[Message]:
        return self.queue.find(lambda message: (1, message.entry.entry_id) in positions)

    def redelivered_locally(self, positions: Sequence[tuple[int, int]]) -> None:
        removed = self.queue.remove(lambda message: (1, message.entry.entry_id) in positions)
        for message in removed:
            is_below = message.entry.redelivery_count < LIMIT
            assert is_below or not self.is_unhandled(message), "it would come over the limit, unseen"
        self.charged -= len(removed)

    def redeliver_everything(self) -> None:
        self.charged -= len(self.queue.remove(lambda _: True))
        self._all_anew()
        if self.link is not None:
            self.link.write(commands.redeliver(self.consumer_id, ()))

    def passed_over(self, passed: Sequence[Message]) -> None:
        if passed[0].entry.generation == self.links:
            self.charged -= len(passed)

    def _taken(self, message: Message) -> None:
        if message.entry.generation == self.links:
            self.charged -= 1
            self.acks.taken(message)

    # -- the application, and what becomes of its letters

    def take(self) -> None:
        message = self.queue.take()
        if message is None:
            return
        entry = message.entry.entry_id
        assert not self.shown_here[entry] & bit(message), "shown twice, and it came once"
        assert not self.stored_here[entry] & bit(message), "shown after its letter was stored"
        self.shown_here[entry] |= bit(message)
        self.seen[entry] |= bit(message)
        self.has_second_copy[entry] |= not self.unhandled[entry] & bit(message)
        self.held.append(message)

    def ack(self, message: Message) -> None:
        self.held.remove(message)
        self.acked[message.entry.entry_id] |= bit(message)
        self.unhandled[message.entry.entry_id] &= ~bit(message)
        self.acks.acknowledge(message)

    def nack(self, message: Message) -> None:
        if self.refuse(message):
            self.held.remove(message)

    def refuse(self, message: Message) -> bool:
        """Nack a message, unless it is acked: a nack would bring it back. Return whether the message was nacked."""
        if not self.is_unhandled(message):
            return False
        self.acks.negative_acknowledge(message.message_id())
        return True

    def is_unhandled(self, message: Message) -> bool:
        return bool(self.unhandled[message.entry.entry_id] & bit(message))

    def put_off(self, message: Message) -> None:
        if message.entry is not self.latest[message.entry.entry_id] or not self.is_unhandled(message):
            return  # an old copy: the application decides about the new copy
        self.held.remove(message)
        putting = asyncio.ensure_future(self.letters.reconsume_later(message, 0, None))
        putting.add_done_callback(lambda done: done.exception())

    def is_written(self, letter: Letter) -> None:
        known = self.seen[letter.entry] | self.bypassing[letter.entry]
        assert letter.bit & known, "a letter of what nobody was shown"

    def answer(self, letter: Letter, *, is_stored: bool) -> None:
        self.box.under_way.remove(letter)
        if not is_stored:
            letter.stored.set_exception(ProducerQueueIsFull("no room"))
            return
        self.stored[letter.entry] |= letter.bit
        self.unhandled[letter.entry] &= ~letter.bit
        if letter.begun_in == self.rounds:
            self.stored_here[letter.entry] |= letter.bit
        letter.stored.set_result(None)

    async def settle(self) -> None:
        """Run the loop until nothing changes any more."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
            self.hear()


class AtTheLimit(RuleBasedStateMachine):
    """The model's rules and invariants."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world: World
        self.is_wrong = False

    @initialize(
        batch_index_acks=st.booleans(),
        has_timeout=st.booleans(),
        retry=st.booleans(),
        every_send=st.booleans(),
    )
    def begin(self, *, batch_index_acks: bool, has_timeout: bool, retry: bool, every_send: bool) -> None:
        def make() -> None:
            self.world = World(
                batch_index_acks=batch_index_acks,
                has_timeout=has_timeout,
                retry=retry,
                every_send=every_send,
            )

        self.do(make)

    def do(self, step: Callable[[], object]) -> None:
        async def on_the_loop() -> None:
            step()
            await self.world.settle()

        self.is_wrong = True
        self.runner.run(on_the_loop())
        self.is_wrong = False

    @rule(count=st.integers(1, 2))
    def take(self, count: int) -> None:
        for _ in range(count):
            self.do(self.world.take)

    @precondition(lambda self: self.world.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.world.held))
        self.do(lambda: self.world.ack(message))

    @precondition(lambda self: self.world.held)
    @rule(data=st.data(), is_due=st.booleans())
    def nack(self, data: st.DataObject, is_due: bool) -> None:
        message = data.draw(st.sampled_from(self.world.held))
        self.do(lambda: self.world.nack(message))
        if is_due:
            self.wait(DELAY_MS + 50)

    @precondition(lambda self: self.world.held)
    @rule(data=st.data())
    def put_off(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.world.held))
        if self.world.box.retry_topic is not None:
            self.do(lambda: self.world.put_off(message))

    @precondition(lambda self: self.world.queue.messages)
    @rule(data=st.data())
    def refuse_by_id_what_waits(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(list(self.world.queue.messages)))
        self.do(lambda: self.world.refuse(message))

    @precondition(lambda self: self.world.box.under_way)
    @rule(data=st.data(), is_stored=st.booleans())
    def answer(self, data: st.DataObject, is_stored: bool) -> None:
        letter = data.draw(st.sampled_from(self.world.box.under_way))
        self.do(lambda: self.world.answer(letter, is_stored=is_stored))

    @precondition(lambda self: self.world.box.under_way)
    @rule()
    def store_all(self) -> None:
        for letter in list(self.world.box.under_way):
            self.do(lambda letter=letter: self.world.answer(letter, is_stored=True))  # type: ignore[misc]

    @rule(ms=st.sampled_from([1, 50, DELAY_MS, TIMEOUT_MS + 300, 70_000]))
    def wait(self, ms: int) -> None:
        self.do(lambda: self.world.timers.advance(ms))

    @rule(trouble=st.sampled_from(["none", "none", "none", "lost", "lost with acks", "all again"]))
    def trouble(self, trouble: str) -> None:
        def lose() -> None:
            if self.world.link is not None and trouble == "lost with acks":
                self.world.acks.flush()
                self.world.link.heard.clear()
            self.world.link = None

        if trouble != "none":
            self.do(self.world.acks.redeliver_all if trouble == "all again" else lose)

    @precondition(lambda self: self.world.link is None)
    @rule()
    def come_again(self) -> None:
        self.do(self.world.attach)

    @invariant()
    def permits_balance(self) -> None:
        if hasattr(self, "world"):
            waiting = len(self.world.queue)
            assert self.world.charged >= waiting
            assert self.world.charged == waiting or self.world.box.under_way

    def teardown(self) -> None:
        try:
            if not self.is_wrong:
                self.end()
        finally:
            self.runner.close()

    def end(self) -> None:
        """Store every letter and ack every message shown from now on, until nothing is left."""
        world = self.world
        if world.link is None:
            self.come_again()
        for _ in range(10):
            while world.queue.messages:
                self.do(world.take)
            while world.held:
                self.do(lambda: world.ack(world.held[0]))
            if world.box.under_way:
                self.store_all()
            self.wait(70_000)
        assert world.remaining == [0] * len(SIZES), "lost"
        self.permits_balance()
        self.runner.run(world.letters.close(5))
        self.runner.run(world.acks.close(5))
        assert world.timers.running == 0


@pytest.mark.row("I16", "I22")
def test_only_shown_messages_of_a_batch_at_the_limit_become_letters_and_none_is_lost() -> None:
    run_state_machine_as_test(AtTheLimit, settings=model_settings(examples=200, steps=40))
