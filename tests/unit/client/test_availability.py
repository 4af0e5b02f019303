"""Decide from the broker's answer whether a topic has messages after the last one that was taken."""

from __future__ import annotations

import pytest

from vela.core.consuming.availability import has_more
from vela.core.consuming.start_position import StartPosition
from vela.message import MessageId
from vela.wire.message_id import MessageId as WireId

START = StartPosition(ledger_id=7, entry_id=3, batch_index=-1, inclusive=False)
INCLUSIVE = StartPosition(ledger_id=7, entry_id=3, batch_index=-1, inclusive=True)
WITHIN = StartPosition(ledger_id=7, entry_id=3, batch_index=1, inclusive=False)


@pytest.mark.parametrize(
    ("last", "acknowledged", "start", "taken", "more"),
    [
        pytest.param((-1, -1, -1), None, None, None, False, id="empty"),
        pytest.param((7, 3, -1), None, None, None, True, id="nothing taken"),
        pytest.param((7, 3, -1), (7, 2), None, None, True, id="nothing taken, all before acknowledged"),
        pytest.param((7, 3, -1), (7, 3), None, None, False, id="acknowledged"),
        pytest.param((7, 3, -1), None, START, None, False, id="after the last"),
        pytest.param((7, 3, -1), None, INCLUSIVE, None, True, id="from the last"),
        pytest.param((7, 3, 2), None, WITHIN, None, True, id="from inside the last batch"),
        pytest.param((7, 3, 1), None, WITHIN, None, False, id="after the last batch's last"),
        pytest.param((7, 3, 2), (7, 2), None, (7, 3, 1), True, id="one of the batch is left"),
        pytest.param((7, 3, 2), (7, 2), None, (7, 3, 2), False, id="the batch is taken"),
        pytest.param((8, 0, -1), (7, 3), None, (7, 3, -1), True, id="the next ledger"),
        pytest.param((8, 0, -1), (8, 0), None, (7, 3, -1), False, id="what follows was thrown away"),
    ],
)
def test_more_is_available_only_after_the_last_known_message(
    last: tuple[int, int, int],
    acknowledged: tuple[int, int] | None,
    start: StartPosition | None,
    taken: tuple[int, int, int] | None,
    more: bool,
) -> None:
    mark_delete = (
        None if acknowledged is None else WireId(ledger_id=acknowledged[0], entry_id=acknowledged[1])
    )
    took = None if taken is None else MessageId(-1, *taken)
    newest = WireId(ledger_id=last[0], entry_id=last[1], batch_index=last[2])
    assert has_more(last=newest, mark_delete=mark_delete, start=start, taken=took) is more
