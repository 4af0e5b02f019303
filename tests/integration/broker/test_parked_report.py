"""The table of parked pulls for the console shows changes within about a second, and no pull that has ended."""

from __future__ import annotations

from typing import Any

from tests.integration.broker.pulls import ask, numbers, parked, publish, result
from tests.support.broker_harness import BrokerRun, eventually, rows, running
from tests.support.postgres_proxy import Moment


def stored(run: BrokerRun) -> list[tuple[Any, ...]]:
    return rows(
        run.database_url,
        "SELECT t.name, p.pulls, p.oldest FROM vela_parked_pulls p JOIN vela_topic t ON t.id = p.topic_id ORDER BY 1",
    )


async def test_a_pull_that_waits_is_reported_until_it_is_answered(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 3))
    first = await parked(run, ask(3, park_ms=60_000))
    first.address = "10.0.0.9:5000"
    second = await parked(run, ask(3, matches=lambda _: False, park_ms=30_000))
    ((name, pulls, oldest),) = await eventually(lambda: stored(run), "the report of two pulls")
    assert (name, pulls) == ("persistent://public/default/t", 2)
    assert oldest[0] == {
        "offset": 3,
        "parked_ms": first.parked_ms,
        "due_ms": first.parked_ms + 60_000,
        "is_filtered": False,
        "address": "10.0.0.9:5000",
    }
    assert oldest[1]["is_filtered"]
    await publish(producer, b"3")
    await result(first)
    await eventually(lambda: stored(run)[0][1] == 1, "the report of one pull")
    run.broker.forget_pull(second)
    await eventually(lambda: not stored(run), "the report that none waits")


async def test_many_pulls_of_a_queue_are_counted_and_fifty_are_shown(run: BrokerRun) -> None:
    await publish(await run.producer(), b"0")
    waiting = [await parked(run, ask(1)) for _ in range(60)]
    ((_, pulls, oldest),) = await eventually(lambda: stored(run), "the report of sixty pulls")
    assert (pulls, len(oldest)) == (60, 50)
    for each in waiting:
        run.broker.forget_pull(each)


async def test_a_report_that_was_not_written_is_written_later(run: BrokerRun) -> None:
    await publish(await run.producer(), b"0")
    trap = run.proxy.trap("INSERT INTO vela_parked_pulls", Moment.LOSE_REQUEST)
    await parked(run, ask(1))
    await trap.caught.wait()
    await eventually(lambda: stored(run), "the report after a lost connection")


async def test_a_new_broker_forgets_the_pulls_of_the_one_before(broker_url: str) -> None:
    async with running(broker_url) as run:
        await publish(await run.producer(), b"0")
        await parked(run, ask(1))
        await eventually(lambda: stored(run), "the report")
        await run.crash()
    assert rows(broker_url, "SELECT pulls FROM vela_parked_pulls") == [(1,)]
    async with running(broker_url):
        assert rows(broker_url, "SELECT pulls FROM vela_parked_pulls") == []
