"""Whether an earlier broker stored the message of an act `publish`: the broker searches the log for its entry, after
the position that the act noted before it published.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.acts.kinds.topics.publish_once import stored
from broker.core.errors import SendOutcomeUnknown
from broker.core.ledgers.ledger import LedgerInfo, LedgerMap
from broker.core.position import Position
from vela.wire.entry import encode_single

if TYPE_CHECKING:
    from broker.acts.kinds.base import ActContext

AFTER_TWO = {"topic": "t", "after": "1:1", "entries": 2}


def entry(producer: str) -> bytes:
    return encode_single(producer_name=producer, sequence_id=0, publish_time_ms=1, payload=b"x")


class _Log:
    """Three sealed ledgers with two entries each, and an empty open one. Act 7 published 2:1."""

    def __init__(self) -> None:
        self.ledgers = LedgerMap(
            LedgerInfo(ledger_id=number, entries=2, entries_before=2 * number - 2, sealed=True)
            for number in (1, 2, 3)
        )
        self.ledgers.add(LedgerInfo(ledger_id=4, entries_before=6))
        self.is_open = False  # the search does not wait for the appends of a log that is not open
        self.reads = 0
        self.trims_at_read = 0  # number of ledgers that are trimmed at the first read

    async def read_ahead(self, position: Position) -> list[SimpleNamespace]:
        self.reads += 1
        if self.reads == 1 and self.trims_at_read:
            self.ledgers.drop_first(self.trims_at_read)
        if not self.ledgers.contains(position):
            return []
        is_mine = position == Position(2, 1)
        data = entry("vela-act-7" if is_mine else "somebody")
        return [SimpleNamespace(ledger_id=position.ledger_id, entry_id=position.entry_id, data=data)]

    def context(self, act_id: int = 7) -> ActContext:
        topic = SimpleNamespace(name="t", log=self, reader=self)

        async def open_named(_: str) -> Any:
            return topic

        topics = SimpleNamespace(open_named=open_named)
        return cast("ActContext", SimpleNamespace(topics=topics, act=SimpleNamespace(act_id=act_id)))


async def test_a_stored_message_is_found_and_another_one_is_not() -> None:
    assert await stored(_Log().context(), AFTER_TWO) == Position(2, 1)
    assert await stored(_Log().context(act_id=8), AFTER_TWO) is None


async def test_entries_trimmed_before_the_noted_position_do_not_matter() -> None:
    log = _Log()
    log.ledgers.drop_first(1)
    assert await stored(log.context(), AFTER_TWO) == Position(2, 1)
    assert await stored(log.context(act_id=8), AFTER_TWO) is None


@pytest.mark.parametrize("ledgers", [2, 3])
@pytest.mark.parametrize("is_during_the_search", [False, True])
async def test_the_outcome_is_unknown_if_entries_behind_the_noted_position_were_trimmed(
    ledgers: int, is_during_the_search: bool
) -> None:
    """A consumer may have got and acked the message, so that publishing it again could deliver it twice."""
    log = _Log()
    if is_during_the_search:
        log.trims_at_read = ledgers
    else:
        log.ledgers.drop_first(ledgers)
    with pytest.raises(SendOutcomeUnknown, match="may or may not be stored"):
        await stored(log.context(), AFTER_TWO)
