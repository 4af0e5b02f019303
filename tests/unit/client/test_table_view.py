"""A table view whose reader fails: it waits longer after each failure, and logs a failure once."""

from __future__ import annotations

import logging
from unittest.mock import AsyncMock, Mock

import pytest

from tests.support.waiting import until
from vela.aio.readers.table_view import TableView
from vela.core.backoff import Backoff
from vela.errors import AlreadyClosed, ConnectError, NotConnected


class CountedPauses(Backoff):
    """Pauses that take no time."""

    def __init__(self) -> None:
        super().__init__(initial_ms=100, max_ms=60_000)
        self.asked: list[float] = []

    def next_ms(self, chance: float) -> float:
        self.asked.append(super().next_ms(0))
        return 0


async def test_a_failure_is_logged_once_and_the_view_waits_longer_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, failed = ConnectError("no broker"), NotConnected("the reader has failed")
    message = Mock(
        partition_key=lambda: "k", has_null_value=lambda: False, data=lambda: b"v", value=lambda: "v"
    )
    reads = [away, away, away, failed, failed, message, failed, AlreadyClosed("closed")]
    reader = Mock(
        read_next=AsyncMock(side_effect=reads),
        has_message_available=AsyncMock(return_value=False),
        topic=lambda: "persistent://public/default/t",
        close=AsyncMock(),
    )
    pauses = CountedPauses()
    view = TableView(reader, pauses)
    await view.start()
    await until(
        lambda: reader.read_next.await_count == len(reads), "the view to see that the reader is closed"
    )
    await view.close()
    assert pauses.asked == [100, 200, 400, 800, 1600, 100]
    assert view["k"] == "v"
    text = "the table view of persistent://public/default/t cannot read its topic, will try again: "
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == [
        f"{text}{error}" for error in (away, failed, failed)
    ]
