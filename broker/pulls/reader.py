"""Read messages by offset. An offset counts messages since the topic began."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.core.entry import FLAG_MARKER, StoredEntry
from broker.core.errors import ServiceNotReady
from broker.core.position import Position
from broker.pulls.values import PullAnswer, PullAsk, PulledMessage, PullStatus
from vela.wire.entry import EntryCorrupt, Message, decode_messages

if TYPE_CHECKING:
    from broker.core.ledgers.ledger import Ledger
    from broker.topics.topic import Topic

__all__ = ["PullReader", "bounds", "empty_answer"]

MAX_ANSWER_BYTES: Final = 256 * 1024
_KNOWN_PLACES: Final = 4096
_DECODED_ENTRIES: Final = 16


def bounds(topic: Topic) -> tuple[int, int]:
    """Return the offset of the oldest kept message, and the offset of the next message to be stored."""
    ledgers = topic.log.ledgers
    end = ledgers.total_messages
    return next((ledger.messages_before for ledger in ledgers), end), end


def empty_answer(topic: Topic, status: PullStatus, next_begin_offset: int) -> PullAnswer:
    """Return an answer without messages."""
    low, end = bounds(topic)
    return PullAnswer(
        status=status,
        next_begin_offset=next_begin_offset,
        min_offset=low,
        max_offset=end,
        partition=_partition(topic),
    )


def _partition(topic: Topic) -> int:
    return -1 if topic.name.partition is None else topic.name.partition


def _cached(topic: Topic, position: Position, most: int) -> list[StoredEntry]:
    entries: list[StoredEntry] = []
    while len(entries) < most:
        entry = topic.log.cached_entry(position)
        if entry is None:
            break
        entries.append(entry)
        position = topic.log.ledgers.next_after(position)
    return entries


class PullReader:
    """Reads messages for pulls."""

    def __init__(self, *, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._places: OrderedDict[tuple[int, int], Position] = OrderedDict()  # Keys are topic id and offset
        self._decoded: OrderedDict[Position, list[Message] | None] = OrderedDict()

    async def read(self, topic: Topic, ask: PullAsk) -> PullAnswer:
        """Answer a pull.

        The caller must check `ask.offset` against `bounds` first. Raises BrokerError and psycopg.Error.
        """
        position = await self._place(topic, ask.offset)
        entries = _cached(topic, position, ask.max_messages) or await topic.reader.read_ahead(position)
        return self.answer(topic, ask, entries)

    def read_in_memory(self, topic: Topic, ask: PullAsk) -> PullAnswer | None:
        """Answer a pull from memory. Return None if the answer needs a query."""
        position = self._known_place(topic, ask.offset)
        entries = () if position is None else _cached(topic, position, ask.max_messages)
        return self.answer(topic, ask, entries) if entries else None

    async def place(self, topic: Topic, offset: int) -> tuple[Position, int]:
        """Return the position of the entry with the message at `offset`, and the number of messages before the entry.

        Raises BrokerError and psycopg.Error.
        """
        position = await self._place(topic, offset)
        index = topic.log.index
        await topic.reader.load_index(index.unknown(position))
        through, messages = index.messages_through(position), index.messages_in(position)
        if through is None or messages is None:
            raise ServiceNotReady(f"{topic.name} changed while an offset was looked for; ask again")
        return position, through - messages

    def answer(self, topic: Topic, ask: PullAsk, entries: Sequence[StoredEntry]) -> PullAnswer:
        """Answer a pull from consecutive entries. The first entry must contain `ask.offset`."""
        found: list[PulledMessage] = []
        unreadable = size_bytes = 0
        next_offset = ask.offset
        last: StoredEntry | None = None
        for entry in entries:
            first = entry.cumulative_messages - entry.messages
            messages = self.messages(entry)
            if messages is None:
                unreadable += entry.cumulative_messages - max(first, ask.offset)
                messages = []
            for message in messages:
                offset = first + max(0, message.batch_index)
                if offset < ask.offset:
                    continue
                if len(found) == ask.max_messages or (found and size_bytes >= MAX_ANSWER_BYTES):
                    break
                next_offset, last = offset + 1, entry
                if ask.matches is None or ask.matches(message.properties):
                    found.append(PulledMessage(offset, Position(entry.ledger_id, entry.entry_id), message))
                    size_bytes += len(message.payload)
            else:
                next_offset, last = entry.cumulative_messages, entry
                continue
            break
        if last is not None:
            self._remember(topic, next_offset, last)
        status = PullStatus.FOUND if found else PullStatus.NONE_MATCHED
        low, high = bounds(topic)
        return PullAnswer(
            status=status if next_offset > ask.offset else PullStatus.NOT_FOUND,
            next_begin_offset=next_offset,
            min_offset=low,
            max_offset=high,
            partition=_partition(topic),
            messages=found,
            unreadable_messages=unreadable,
        )

    def messages(self, entry: StoredEntry) -> list[Message] | None:
        """Return an entry's messages, or None if they are unreadable."""
        position = Position(entry.ledger_id, entry.entry_id)
        if position in self._decoded:
            return self._decoded[position]
        messages: list[Message] | None = []
        if not entry.flags & FLAG_MARKER:
            try:
                messages = decode_messages(entry.data, max_message_bytes=self._max_message_bytes)
            except EntryCorrupt:
                messages = None
        if entry.is_batch:
            self._decoded[position] = messages
            if len(self._decoded) > _DECODED_ENTRIES:
                self._decoded.popitem(last=False)
        return messages

    def _remember(self, topic: Topic, offset: int, last: StoredEntry) -> None:
        position = Position(last.ledger_id, last.entry_id)
        if offset == last.cumulative_messages:
            position = topic.log.ledgers.next_after(position)
        self._places[topic.topic_id, offset] = position
        if len(self._places) > _KNOWN_PLACES:
            self._places.popitem(last=False)

    def _known_place(self, topic: Topic, offset: int) -> Position | None:
        known = self._places.get((topic.topic_id, offset))
        return known if known is not None and topic.log.ledgers.contains(known) else None

    async def _place(self, topic: Topic, offset: int) -> Position:
        known = self._known_place(topic, offset)
        if known is not None:
            return known
        holders = (
            each
            for each in reversed(list(topic.log.ledgers))
            if each.messages and each.messages_before <= offset
        )
        ledger = next(holders, None)
        if ledger is None:  # The ledger was trimmed after the caller checked the offset
            raise ServiceNotReady(f"{topic.name} changed while an offset was looked for; ask again")
        return Position(ledger.ledger_id, await self._search(topic, ledger, offset))

    async def _search(self, topic: Topic, ledger: Ledger, offset: int) -> int:
        """Alternate between interpolation and bisection, because interpolation alone is slow if batch sizes vary."""
        low, high = 0, ledger.entries - 1
        before, through = ledger.messages_before, ledger.messages_before + ledger.messages
        turn = 0
        while low < high:
            if turn % 2:
                probe = (low + high) // 2
            else:
                probe = min(high - 1, low + (offset - before) * (high - low + 1) // (through - before))
            turn += 1
            count = await self._count_through(topic, ledger, probe)
            if count > offset:
                high, through = probe, count
            else:
                low, before = probe + 1, count
        return low

    async def _count_through(self, topic: Topic, ledger: Ledger, entry_id: int) -> int:
        known = topic.log.index.messages_through(Position(ledger.ledger_id, entry_id))
        if known is not None:
            return known
        count = await topic.reader.messages_through(Position(ledger.ledger_id, entry_id))
        if count is None:
            # If the entry's row is missing, this read raises GapInLog.
            await topic.reader.read_ahead(Position(ledger.ledger_id, entry_id))
            raise ServiceNotReady(f"{topic.name} changed while an offset was looked for; ask again")
        return count
