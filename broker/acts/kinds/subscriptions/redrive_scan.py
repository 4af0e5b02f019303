"""Find the dead letters that a redrive publishes again, and their target topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.core.counted import counted
from broker.core.errors import InvalidTopicName
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.producers.key_hash import message_slot
from vela.wire.entry import decode_messages, parse_header
from vela.wire.errors import EntryCorrupt

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.subscription.subscription import Subscription
    from vela.wire.entry import Message

__all__ = ["REDRIVES", "Found", "Selection", "Tally", "scan"]

REDRIVES: Final = "REDRIVEN_TIMES"  # Property that counts the redrives of a message
_ORIGIN: Final = "REAL_TOPIC"
_WHY_LEFT: Final = {
    "in_flight": "delivered to a consumer and not acked",
    "redriving": "another redrive is publishing them",
    "no_origin": f"no property {_ORIGIN}, or it is not a topic name; name a target topic for them",
    "redriven_enough": "redriven too often already",
    "unreadable": "corrupt, encrypted, in chunks, or not to be decompressed",
    "to_itself": "the target is this topic itself",
    "unplanned": "the target is in a namespace that the plan did not name, so plan again to redrive them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The conditions for messages to redrive."""

    position: Position | None  # Only this entry; None means all entries
    index: int | None  # Only the message with this index in its batch; None means all messages
    to_topic: str | None  # If None, the property REAL_TOPIC names the topic
    own_topic: str
    key: str | None
    property_name: str | None
    property_value: str | None
    after_ms: int | None
    before_ms: int | None
    max_redrives: int
    max_message_bytes: int
    namespaces: frozenset[str] | None = None  # If None, all namespaces are allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One message to redrive."""

    subscription: Subscription
    position: Position
    without: int | None  # Bitset of the other messages in the batch, or None if the entry is not a batch
    message: Message
    target: str  # Full topic name
    redrives: int
    key_hash: int | None  # Chooses the partition of the target topic

    @property
    def place(self) -> tuple[Position, int]:
        """Return the entry's position and the message's index. The index is -1 if the entry is not a batch."""
        return self.position, self.message.batch_index


@dataclass(slots=True)
class Tally:
    """The counts of a scan."""

    entries: int = 0
    matched: int = 0
    targets: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)  # Counts of the messages not redriven, by reason

    def words(self) -> list[str]:
        """Return one sentence for each reason why messages are not redriven."""
        return [
            f"{counted(count, 'message stays', 'messages stay')}: {_WHY_LEFT[reason]}"
            for reason, count in sorted(self.left.items())
        ]


async def scan(
    current: Callable[[], Awaitable[Subscription]],
    selection: Selection,
    through: Position,
    tally: Tally,
    *,
    entries: int | None = None,
) -> AsyncIterator[Found]:
    """Yield the matching messages in order. `through` is the last position to scan.

    If `entries` is given, it is the maximum number of entries to read. The topic may be unloaded and loaded
    again during the scan, so the function `current` must return the subscription that is in memory now.

    Raises GapInLog if an untrimmed entry is missing.
    """
    subscription = await current()
    position = subscription.cursor.read_from()
    if selection.position is not None:
        position, through = selection.position, min(selection.position, through)
    while True:
        subscription = await current()
        ledgers = subscription.log.ledgers
        position = ledgers.next_valid(position)
        if position > through or not ledgers.contains(position):
            return
        for entry in await subscription.reader.read_ahead(position):
            position = Position(entry.ledger_id, entry.entry_id)
            if position > through or (entries is not None and tally.entries >= entries):
                return
            tally.entries += 1
            if not subscription.log.is_open:
                subscription = await current()
            for found in _of_entry(subscription, selection, entry, tally):
                tally.matched += 1
                tally.targets[found.target] += 1
                yield found
        position = subscription.log.ledgers.next_after(position)


def _of_entry(
    subscription: Subscription, selection: Selection, entry: StoredEntry, tally: Tally
) -> Iterator[Found]:
    position = Position(entry.ledger_id, entry.entry_id)
    left = subscription.cursor.remaining_of(position)
    if left == 0 or not _is_in_time(selection, entry.append_ms):
        return
    if subscription.dispatcher.is_pending(position):
        tally.left["in_flight"] += entry.messages if left is None else left.bit_count()
        return
    try:
        if parse_header(entry.data).encrypted:
            raise EntryCorrupt("encrypted")
        messages = decode_messages(entry.data, max_message_bytes=selection.max_message_bytes)
    except EntryCorrupt:
        tally.left["unreadable"] += entry.messages
        return
    for message in messages:
        if message.batch_index >= 0:
            # The message may have been acked while the caller handled an earlier message.
            left = subscription.cursor.remaining_of(position)
            if left is not None and not left >> message.batch_index & 1:
                continue
        if selection.index not in (None, message.batch_index) or not _is_wanted(selection, message):
            continue
        if (position, message.batch_index) in subscription.redriving:
            tally.left["redriving"] += 1
            continue
        target, redrives, reason = _target(selection, message)
        if reason:
            tally.left[reason] += 1
            continue
        yield Found(
            subscription=subscription,
            position=position,
            without=None
            if message.batch_index < 0
            else ~(1 << message.batch_index) & ((1 << entry.messages) - 1),
            message=message,
            target=target,
            redrives=redrives,
            key_hash=message_slot(message),
        )


def _is_in_time(selection: Selection, append_ms: int) -> bool:
    return (selection.after_ms is None or append_ms >= selection.after_ms) and (
        selection.before_ms is None or append_ms < selection.before_ms
    )


def _is_wanted(selection: Selection, message: Message) -> bool:
    if selection.key is not None and message.key != selection.key:
        return False
    if selection.property_name is None:
        return True
    value = message.properties.get(selection.property_name)
    return value is not None and selection.property_value in (None, value)


def _target(selection: Selection, message: Message) -> tuple[str, int, str]:
    """Return the target, the number of earlier redrives, and the reason why the message cannot be redriven.

    The reason is empty if the message can be redriven.
    """
    redrives = message.properties.get(REDRIVES, "0")
    count = int(redrives) if redrives.isdecimal() and len(redrives) < 10 else 0
    if count >= selection.max_redrives:
        return "", count, "redriven_enough"
    target = selection.to_topic
    if target is None:
        try:
            target = TopicName.parse(message.properties.get(_ORIGIN, "")).full
        except InvalidTopicName:
            return "", count, "no_origin"
    if target == selection.own_topic:
        return target, count, "to_itself"
    namespaces = selection.namespaces
    is_planned = namespaces is None or TopicName.parse(target).namespace_name in namespaces
    return target, count, "" if is_planned else "unplanned"
