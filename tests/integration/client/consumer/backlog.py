"""A scripted broker with a backlog. It sends as permits allow; after a reconnect it sends unacked entries again."""

from __future__ import annotations

from broker.doors.binary.wire import events
from tests.integration.client.consumer.desk import Desk
from tests.support.scripted_peer import Link
from tests.unit.client.entries import batch, single

__all__ = ["Backlog"]


class Backlog:
    """A backlog of entries of one to five messages each, for one Exclusive consumer."""

    def __init__(self, desk: Desk, entries: int) -> None:
        self.desk = desk
        self.sizes = [index % 5 + 1 if index % 3 else 1 for index in range(entries)]
        """How many messages each entry has. An entry with one message is not a batch."""
        self.acked: set[int] = set()
        self.sent: list[int] = []
        """Entries sent over the current connection, in order."""
        self._next = 0
        self._open_link: Link | None = None
        desk.peer.on(events.Subscribe, self._subscribed)
        desk.peer.on(events.Flow, self._flowed)
        desk.peer.on(events.Ack, self._acknowledged)

    @property
    def messages(self) -> int:
        """How many messages there are in all."""
        return sum(self.sizes)

    def payload(self, entry_id: int, index: int) -> bytes:
        """Return the payload of one message."""
        return b"%d:%d" % (entry_id, index)

    def _subscribed(self, link: Link, event: events.Subscribe) -> None:
        self.desk._subscribed(link, event)
        self._open_link, self.sent, self._next = link, [], 0

    def _flowed(self, link: Link, event: events.Flow) -> None:
        self.desk._flowed(link, event)
        if link is self._open_link:
            self._send()

    def _send(self) -> None:
        while self.desk.permits > 0 and self._next < len(self.sizes):
            entry_id, size = self._next, self.sizes[self._next]
            self._next += 1
            if entry_id in self.acked:
                continue
            payloads = [self.payload(entry_id, index) for index in range(size)]
            self.sent.append(entry_id)
            self.desk.deliver(
                batch(payloads) if size > 1 else single(payloads[0]), messages=size, entry_id=entry_id
            )

    def _acknowledged(self, link: Link, event: events.Ack) -> None:
        assert not event.cumulative
        self.acked.update(each.entry_id for each in event.ids)
