"""Storing the rows of delivery stories."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.core.subscription.story_rows import StoryBuffer, StoryEvent, StoryRow
from broker.process.reports.stories import Stories


class _BrokenPool:
    """A pool that fails before it lends a connection."""

    def use(self) -> Any:
        raise ValueError("no such thing")


async def test_rows_that_can_never_be_stored_do_not_stop_the_report(
    caplog: pytest.LogCaptureFixture,
) -> None:
    buffer = StoryBuffer()
    buffer.append(
        StoryRow(
            subscription_id=1,
            event=StoryEvent.DELIVERED,
            ledger_id=1,
            first_entry=0,
            last_entry=0,
            at_ms=1,
            until_ms=1,
            events=1,
            redelivery_count=0,
            consumer_name="c",
            consumer_address="",
            detail="",
            expires_ms=2,
        )
    )
    stories = Stories(cast("Any", _BrokenPool()), buffer)
    await stories.write()
    await stories.write()
    assert (
        caplog.text.count("1 rows of delivery stories could not be stored and are lost: no such thing") == 1
    )
