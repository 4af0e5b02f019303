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


def valued(key: str, value: str) -> Mock:
    return Mock(
        partition_key=lambda: key, has_null_value=lambda: False, data=value.encode, value=lambda: value
    )


async def test_a_failure_is_logged_once_and_the_view_waits_longer_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, failed = ConnectError("no broker"), ConnectError("no answer")
    message = valued("k", "v")
    reads = [away, away, away, failed, failed, message, failed, AlreadyClosed("closed")]
    reader = Mock(
        read_next=AsyncMock(side_effect=reads),
        has_message_available=AsyncMock(return_value=False),
        topic=lambda: "persistent://public/default/t",
        close=AsyncMock(),
    )
    pauses = CountedPauses()
    view = TableView(reader, pauses, open_reader=AsyncMock())
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


async def test_after_its_reader_has_failed_the_table_is_what_another_reader_reads() -> None:
    messages = [valued("gone", "0"), valued("changed", "0"), valued("same", "0")]
    first = Mock(
        read_next=AsyncMock(side_effect=[*messages, NotConnected("the topic was deleted")]),
        has_message_available=AsyncMock(side_effect=[True, True, True, False]),
        topic=lambda: "persistent://public/default/t",
        close=AsyncMock(),
    )
    messages = [valued("changed", "1"), valued("same", "0"), valued("new", "1")]
    second = Mock(
        read_next=AsyncMock(side_effect=[*messages, AlreadyClosed("closed")]),
        has_message_available=AsyncMock(side_effect=[True, True, False]),
        topic=lambda: "persistent://public/default/t",
        close=AsyncMock(),
    )
    opened = [ConnectError("no broker"), second]
    view = TableView(first, CountedPauses(), open_reader=AsyncMock(side_effect=opened))
    heard: list[tuple[str, str | None]] = []
    await view.start()
    view.for_each_and_listen(lambda key, value: heard.append((key, value)))
    del heard[:]
    await until(lambda: second.read_next.await_count == 4, "the end of the second reader")
    assert heard == [("gone", None), ("changed", "1"), ("new", "1")]
    assert {key: view[key] for key in view} == {"changed": "1", "same": "0", "new": "1"}
    await view.close()
    assert first.close.await_count
    assert second.close.await_count == 1
