"""An application, an ack side and a broker together.

Whatever happens, the broker learns of every ack and of nothing else, and is never asked for an acked message (I22).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.doors.binary.wire import events
from tests.unit.client.ack_link import FakeConsumer, FakeLink, messages
from vela.core.acks.options import AckOptions
from vela.message import Message

SIZES = (0, 1, 3, 0, 7)  # messages of the entries; 0 = not a batch
DELAY_MS = 300
TIMEOUT_MS = 1000


def full(entry: int) -> int:
    return (1 << max(SIZES[entry], 1)) - 1


class World(FakeConsumer):
    """A broker (`remaining` and `counts`) and an application (`queue`, `taken` and `acked`)."""

    def __init__(self, *, batch_index_acks: bool, has_timeout: bool) -> None:
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
        self.remaining = [full(entry) for entry in range(len(SIZES))]
        self.counts = [0] * len(SIZES)
        self.queue: list[Message] = []
        self.taken: list[Message] = []
        self.acked = [0] * len(SIZES)  # bits acked by the application since they were shown to it
        self.ever_acked = [0] * len(SIZES)
        self.attach()

    def attach(self) -> None:
        self.link = FakeLink()
        self.queue.clear()
        self.acks.attached()
        self.hear()
        for entry in range(len(SIZES)):
            self.deliver(entry)

    def deliver(self, entry: int) -> None:
        remaining = self.remaining[entry]
        if not remaining:
            return
        size = SIZES[entry]
        duplicates = self.acks.delivered(1, entry, size, remaining if remaining != full(entry) else None)
        shown = remaining & ~duplicates
        if self.batch_index_acks or not size:
            assert not shown & self.acked[entry] & ~self.ever_lost(), "acked, and shown again"
        self.acked[entry] &= ~shown
        batch = messages(entry, size, redeliveries=self.counts[entry])
        self.queue += [each for each in batch if shown >> max(each.body.batch_index, 0) & 1]

    def ever_lost(self) -> int:
        """A lost link may take acks with it. The messages of these acks are then shown again."""
        return -1 if self.has_lost_acks else 0

    has_lost_acks = False

    def redelivered_locally(self, positions: Sequence[tuple[int, int]]) -> None:
        self.queue = [each for each in self.queue if (1, each.entry.entry_id) not in positions]

    def hear(self) -> None:
        """Let the broker carry out the commands that the consumer sent."""
        while self.link is not None and self.link.heard:
            event = self.link.heard.pop(0)
            if isinstance(event, events.Ack):
                for each in event.ids:
                    gone = self.remaining[each.entry_id] & ~(each.ack_set or 0)
                    assert not gone & ~self.ever_acked[each.entry_id], "acked what nobody acked"
                    self.remaining[each.entry_id] &= ~gone
            elif isinstance(event, events.Redeliver):
                assert event.positions, "an empty list would mean everything"
                for _, entry in event.positions:
                    assert self.acked[entry] != full(entry), "asked for what is acked (I22)"
                    self.counts[entry] += 1
                    self.deliver(entry)

    # -- what the application does

    def take(self) -> None:
        if self.queue:
            message = self.queue.pop(0)
            self.acks.taken(message)
            self.taken.append(message)

    def ack(self, which: int) -> None:
        if self.taken:
            message = self.taken.pop(which % len(self.taken))
            entry, bit = message.entry.entry_id, 1 << max(message.body.batch_index, 0)
            self.acked[entry] |= bit
            self.ever_acked[entry] |= bit
            self.acks.acknowledge(message)

    def nack(self, which: int) -> None:
        if self.taken:
            message = self.taken[which % len(self.taken)]
            if which % 2:  # otherwise the application may still ack the message
                self.taken.remove(message)
            self.acked[message.entry.entry_id] = (
                0  # an application that nacks an acked message wants it again
            )
            self.acks.negative_acknowledge(message)

    def wait(self, ms: int) -> None:
        for _ in range(ms // 10):
            self.timers.advance(10)
            self.hear()

    def lose(self) -> None:
        if self.link is not None:
            self.hear()
            self.link = None
            self.queue.clear()

    def lose_with_acks(self) -> None:
        """Lose the link together with the last commands."""
        if self.link is not None:
            self.has_lost_acks = True
            self.acks.flush()
            self.link.heard.clear()
            self.lose()

    def come_again(self) -> None:
        if self.link is None:
            self.attach()


ACTIONS = st.sampled_from(
    ["take", "take", "take", "ack", "ack", "nack", "forget", "wait", "long", "lose", "lose acks", "come"]
)


@pytest.mark.row("I22", "S4.14", "S4.15", "S4.20")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ACTIONS, st.integers(0, 9)), max_size=60), st.booleans(), st.booleans())
def test_acks_always_arrive_and_no_acked_message_is_requested(
    steps: list[tuple[str, int]], batch_index_acks: bool, has_timeout: bool
) -> None:
    world = World(batch_index_acks=batch_index_acks, has_timeout=has_timeout)
    for step, number in steps:
        match step:
            case "take":
                world.take()
            case "ack":
                world.ack(number)
            case "nack":
                world.nack(number)
            case "forget":
                if world.taken and has_timeout:
                    world.taken.pop(number % len(world.taken))
            case "wait":
                world.wait(number * 10)
            case "long":
                world.wait(number * 200)
            case "lose":
                world.lose()
            case "lose acks":
                world.lose_with_acks()
            case "come":
                world.come_again()
        world.hear()
    world.come_again()
    for _ in range(10):  # from here on, the application acks everything
        world.hear()
        while world.queue:
            world.take()
        while world.taken:
            world.ack(0)
        world.wait(TIMEOUT_MS + 400)
    assert world.remaining == [0] * len(SIZES)
    assert world.said() == []
    asyncio.run(world.acks.close(5))
    assert world.timers.running == 0
