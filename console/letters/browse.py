"""A bounded search for the letters in one dead-letter topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.letters.reasons import Group, Groups, Letter, letter_of
from console.messages.asked import Asked, Spot
from console.messages.browse import shown
from console.messages.lanes import lanes_of
from console.messages.peek import PeekedMessage
from console.messages.scan import PAGE_BOUNDS, Hit, Looked, Scan
from console.queries.letters.topics import StoredLedger, stored_ledgers
from console.queries.rights import Scope
from console.queries.topics.topic import TopicHead
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

__all__ = ["ROWS", "FoundLetters", "LetterRow", "Original", "find_letters"]

ROWS: Final = 50
_EVERY: Final = 10**9  # No limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The message that a letter was copied from."""

    topic_name: str
    spot: Spot


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRow:
    """One letter as a row of a list."""

    topic_name: str
    spot: Spot
    message: PeekedMessage
    letter: Letter
    # None if the original was not found, or if the user may not see it.
    original: Original | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLetters:
    """The result of one search in a dead-letter topic."""

    groups: Sequence[Group]
    others: int  # Letters that are not in `groups`
    rows: Sequence[LetterRow]  # Oldest first
    looked: Looked
    stored: int  # Number of entries that a search without bounds would read

    @property
    def is_all(self) -> bool:
        """Whether the rows include every letter."""
        return self.looked.stopped_by == "end" and len(self.rows) == self.looked.matched


def find_letters(head: TopicHead, scope: Scope, *, subscription: str, by: str) -> FoundLetters:
    """Find the letters that a subscription has not acked, or all stored letters if `subscription` is empty.

    `by` names the property with the reason why a consumer failed to process the message. If `by` is empty, the search
    tries the usual names. Letters with the same reason, original topic and subscription form a group.

    Raises AskedInvalid if the topic lacks the subscription, or has more than 32 partitions.
    """
    asked = Asked(
        start="next" if subscription else "oldest",
        subscription=subscription,
        is_backward=False,
        limit=_EVERY,
    )
    lanes = lanes_of(head, asked)
    scan = Scan(lanes, asked, PAGE_BOUNDS)
    groups = Groups()
    first: list[tuple[str, Spot, PeekedMessage, Letter]] = []
    for hit in scan.hits():
        letter = _letter(hit, by)
        groups.add(letter, hit.opened.stored.append_ms)
        if len(first) < ROWS:
            first.append((hit.lane.topic_name, hit.spot, shown(hit), letter))
    originals = _originals([letter for _, _, _, letter in first], scope)
    return FoundLetters(
        groups=groups.largest_first(),
        others=groups.others,
        rows=[
            LetterRow(
                topic_name=topic,
                spot=spot,
                message=message,
                letter=letter,
                original=originals.get((letter.topic, letter.origin_id)),
            )
            for topic, spot, message, letter in first
        ],
        looked=scan.looked,
        stored=sum(last - begin + 1 for lane in lanes for begin, last in lane.spans),
    )


def _letter(hit: Hit, by: str) -> Letter:
    message = hit.message or hit.opened.outer
    return letter_of({} if message is None else message.properties, by=by)


def _originals(letters: Sequence[Letter], scope: Scope) -> Mapping[tuple[str, str], Original]:
    named: dict[tuple[str, str], Spot] = {}
    for letter in letters:
        try:
            origin = MessageId.parse(letter.origin_id)
        except InvalidMessageId:
            continue
        named[letter.topic, letter.origin_id] = Spot(origin.ledger_id, origin.entry_id, origin.batch_index)
    ledgers = stored_ledgers({spot.ledger_id for spot in named.values()}, scope)
    return {
        key: Original(topic_name=ledger.topic_name, spot=spot)
        for key, spot in named.items()
        if (ledger := ledgers.get(spot.ledger_id)) is not None and _is_stored(ledger, key[0], spot)
    }


def _is_stored(ledger: StoredLedger, topic: str, spot: Spot) -> bool:
    is_own = topic == ledger.topic_name or ledger.topic_name.startswith(f"{topic}-partition-")
    return is_own and (ledger.entries is None or spot.entry_id < ledger.entries)
