"""A fake consumer and a fake connection for tests of acks. They record their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from broker.doors.binary.wire import events
from broker.doors.binary.wire.decoding import decode_event
from tests.support.manual_timers import ManualTimers
from vela.aio.acks.side import AckSide
from vela.core.acks.options import AckOptions
from vela.message import Message, MessageId, ReceivedEntry
from vela.wire.binary.frames import FrameDecoder
from vela.wire.entry import Message as Body
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

CONSUMER_ID = 3


class FakeLink:
    """A connection that records all commands whole. The broker's own engine would split long commands."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder(1_000_000)
        self.heard: list[events.Event] = []
        self.answers: list[asyncio.Future[Any]] = []

    def write(self, *parts: bytes) -> None:
        for part in parts:
            for frame in self._decoder.feed(part):
                self.heard.append(decode_event(BaseCommand.FromString(frame.command), frame))

    def ask(self, build: Callable[[int], bytes], *, timeout_s: float | None) -> asyncio.Future[Any]:
        self.write(build(len(self.answers)))
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


class FakeConsumer:
    """A consumer that owns an `AckSide`. Without a `link` it is not attached."""

    def __init__(self, options: AckOptions) -> None:
        self.consumer_id = CONSUMER_ID
        self.link: FakeLink | None = FakeLink()
        self.timers = ManualTimers()
        self.acks = AckSide(self, options, self.timers)
        self.dropped: list[tuple[int, int]] = []
        self.all_again = 0

    def connection(self) -> FakeLink | None:
        return self.link

    def redelivered_locally(self, positions: Sequence[tuple[int, int]]) -> None:
        self.dropped += positions

    def redeliver_everything(self) -> None:
        self.all_again += 1

    def said(self) -> list[tuple[Any, ...]]:
        """Return what was written since the last call: ("ack", ids), ("through", id), ("again", positions)."""
        assert self.link is not None
        heard, self.link.heard = self.link.heard, []
        return [_short(event) for event in heard]


def _short(event: events.Event) -> tuple[Any, ...]:
    if isinstance(event, events.Ack):
        assert event.consumer_id == CONSUMER_ID
        ids = [(entry_id, ack_set) if ack_set is not None else entry_id for _, entry_id, ack_set in event.ids]
        error = () if event.validation_error is None else (event.validation_error,)
        return ("through" if event.cumulative else "ack", *ids, *error)
    assert isinstance(event, events.Redeliver)
    return ("again", *[entry_id for _, entry_id in event.positions])


def consumer(*, is_shared: bool = True, **options: Any) -> FakeConsumer:
    return FakeConsumer(AckOptions(is_shared=is_shared, **options))


def messages(entry_id: int, size: int = 0, *, redeliveries: int = 0) -> list[Message]:
    """Return the messages of one entry. `size` 0 means a single message."""
    entry = ReceivedEntry("t", 1, entry_id, -1, redeliveries, size)
    return [Message(_body(index, size), entry) for index in (range(size) if size else (-1,))]


def message(entry_id: int, *, redeliveries: int = 0) -> Message:
    return messages(entry_id, redeliveries=redeliveries)[0]


def take(owner: FakeConsumer, *entry_ids: int) -> None:
    """Let the application take the messages of these entries."""
    for entry_id in entry_ids:
        owner.acks.taken(message(entry_id))


def chunked_message(*entry_ids: int) -> Message:
    """Return a message in chunks. The message's position is that of its last chunk."""
    received = message(entry_ids[-1])
    received.entry.chunks = tuple(MessageId(-1, 1, entry_id) for entry_id in entry_ids)
    return received


def _body(index: int, size: int) -> Body:
    return Body(b"x", {}, None, 0, 0, index, size, 0, "p", None)
