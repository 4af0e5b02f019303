"""Reporting many topics at once does not block the event loop that serves messages."""

from __future__ import annotations

import asyncio

import pytest

from broker.process.reports import reporter, rows, standings
from tests.support.memory_broker import memory_broker


async def test_everything_is_reported_again_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_ANEW_AT_ONCE", 4)
    async with memory_broker() as run:
        for number in range(3):
            await run.consumer(topic=f"t{number}")
        await run.reported_consumers()
        reported = run.broker.reporter
        run.storage.consumers.clear()
        run.broker._report_anew()
        assert not reported._topics
        assert [len(await run.reported_consumers()) for _ in range(2)] == [2, 3]


async def test_a_report_lets_the_loop_serve_others_after_each_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "SLICE", 2)
    monkeypatch.setattr(rows, "SLICE", 2)
    monkeypatch.setattr(standings, "_SLICE", 2)
    async with memory_broker() as run:
        for number in range(8):
            await run.consumer(topic=f"t{number}")
        turns = 0

        async def serve() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        topics = run.broker.topics.all()
        subscriptions = {each for topic in topics for each in topic.subscriptions.values()}
        reported = run.broker.reporter
        serving = asyncio.create_task(serve())
        assert len(await reported.standings.look(topics, subscriptions, 1)) == 8
        assert turns >= 3
        turns = 0
        assert len(await reported._reports(set(topics), subscriptions)) == 8
        assert turns >= 3
        (topic,) = topics[:1]
        turns = 0
        await rows.report_of(
            topic, [*topic.subscriptions.values()] * 8, reported.rates, reported.standings, 1
        )
        assert turns >= 3
        serving.cancel()
