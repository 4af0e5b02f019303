"""A scripted peer that stores the messages of producers, with or without deduplication, and answers as a test says."""

from __future__ import annotations

from collections.abc import Callable

from broker.doors.binary.wire import events
from broker.log.sends import Receipt
from tests.support.scripted_peer import LEDGER_ID, Link, ScriptedPeer
from vela.wire.entry import Message, checksum_ok, decode_messages, parse_header

__all__ = ["StoringPeer"]

Behaviour = Callable[[Link, events.Send], None]


class StoringPeer:
    """The messages that `peer` has stored. `on_send` handles each SEND; the default is `accept`."""

    def __init__(self, peer: ScriptedPeer, *, deduplicates: bool = False) -> None:
        self.peer = peer
        self.entries: list[bytes] = []
        self.on_send: Behaviour = self.accept
        self._deduplicates = deduplicates
        self._names: dict[tuple[int, int], str] = {}  # producers' names, by link and producer id
        self._highest: dict[str, int] = {}  # the highest stored sequence id, by producer name
        peer.on(events.OpenProducer, self._open)
        peer.on(events.Send, lambda link, event: self.on_send(link, event))

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of all stored messages, in order."""
        return [message.payload for message in self.messages]

    @property
    def messages(self) -> list[Message]:
        """All stored messages, in order."""
        limit = self.peer.max_message_bytes
        return [
            message for entry in self.entries for message in decode_messages(entry, max_message_bytes=limit)
        ]

    def _open(self, link: Link, event: events.OpenProducer) -> None:
        name = event.producer_name or f"made-{event.producer_id}"
        self._names[id(link), event.producer_id] = name
        last = self._highest.get(name, -1) if self._deduplicates else -1
        link.engine.send_producer_success(event.request_id, name=name, last_sequence_id=last)

    def store(self, link: Link, event: events.Send) -> int:
        """Store the entry and return its id, or -1 for a duplicate."""
        assert checksum_ok(event.entry_block)
        header = parse_header(event.entry_block)
        assert header.sequence_id == event.sequence_id
        assert header.messages == event.messages
        assert header.highest_sequence_id == event.highest_sequence_id
        name = self._names[id(link), event.producer_id]
        assert header.producer_name == name
        if self._deduplicates:
            if event.sequence_id <= self._highest.get(name, -1):
                return -1
            self._highest[name] = max(event.sequence_id, event.highest_sequence_id or 0)
        self.entries.append(event.entry_block)
        return len(self.entries) - 1

    def accept(self, link: Link, event: events.Send) -> None:
        """Store the entry and answer with a receipt."""
        entry_id = self.store(link, event)
        ledger_id = LEDGER_ID if entry_id >= 0 else -1
        receipt = Receipt(event.sequence_id, event.highest_sequence_id or 0, ledger_id, entry_id, 0)
        link.engine.send_receipts(event.producer_id, [receipt])

    def ignore(self, _link: Link, _event: events.Send) -> None:
        """Neither store nor answer."""

    def break_after(self, sends: int, *, stores: bool) -> None:
        """Accept this many sends, then drop the link once, at the next send. With `stores`, that send is stored."""
        left = sends

        def behave(link: Link, event: events.Send) -> None:
            nonlocal left
            if not link.is_open:
                return
            if left:
                left -= 1
                self.accept(link, event)
                return
            if stores:
                self.store(link, event)
            link.flush()
            link.drop()
            self.on_send = self._accept_unless_dropped

        self.on_send = behave

    def _accept_unless_dropped(self, link: Link, event: events.Send) -> None:
        if link.is_open:
            self.accept(link, event)
