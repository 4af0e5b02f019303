"""A consumer whose failed messages become letters, and a fake box that stores these."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from tests.unit.client.ack_link import FakeConsumer
from vela.aio.letters.letters import Letters
from vela.core.acks.options import AckOptions
from vela.core.producing.outgoing import Outgoing
from vela.errors import ProducerQueueIsFull
from vela.message import Message
from vela.wire.letters import DeadLetterPolicy


class FakeBox:
    """Stores letters. If there is a `gate`, letters wait until it is set. The first `fails` letters are refused."""

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

    async def send_retry(self, letter: Outgoing, *, topic: str, version: bytes, consumer_name: str) -> None:
        await self._send("retry", letter)

    async def send_dead(self, letter: Outgoing, *, topic: str, version: bytes, consumer_name: str) -> None:
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
    """A fake consumer with letters."""

    def __init__(self, box: FakeBox, **options: Any) -> None:
        super().__init__(AckOptions(is_shared=True, group_ms=0, negative_ack_delay_ms=100, **options))
        self.box = box
        self.letters = Letters(self, box, self.timers, "c")  # type: ignore[arg-type]
        self.acks.letters = self.letters
        self.permits = 0
        self.queue: list[Message] = []

    def passed_over(self, passed: Sequence[Message]) -> None:
        self.permits += len(passed)

    def waiting(self, positions: Collection[tuple[int, int]]) -> list[Message]:
        return [each for each in self.queue if (1, each.entry.entry_id) in positions]

    def letters_of(self) -> list[int]:
        """Return the batch indexes of the letters stored since the last call."""
        stored, self.box.stored = self.box.stored, []
        return [int(letter.properties["ORIGIN_MESSAGE_ID"].split(":")[3]) for _, letter in stored]

    async def pass_time(self, ms: int) -> None:
        self.timers.advance(ms)
        await self.settled()

    def receive(self, *arrived: Message, take: int | None = None) -> list[Message]:
        """Deliver the messages and take this many of them; None means all."""
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
        """Let all tasks run that are ready, so that nothing is under way."""
        for _ in range(20):
            await asyncio.sleep(0)


def dead_after(count: int, **options: Any) -> Consumer:
    return Consumer(FakeBox(DeadLetterPolicy(max_redeliver_count=count)), **options)
