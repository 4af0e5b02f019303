"""The heartbeat in `vela_broker`: it does not wait for other work, ends with a stop, and notices a long pause."""

from __future__ import annotations

from broker.storage.log.sweep import SILENT_S
from tests.support.broker_harness import BrokerRun, eventually, new_run, one_row, rows, running

SEEN = "SELECT seen_at, stopped_at FROM vela_broker WHERE id = 1"


async def test_the_broker_beats_while_all_its_other_connections_are_busy(
    run: BrokerRun, broker_url: str
) -> None:
    first, stopped = one_row(broker_url, SEEN)
    assert stopped is None
    places = run.broker.pool._places
    taken = places._value
    for _ in range(taken):
        await places.acquire()
    await eventually(lambda: one_row(broker_url, SEEN)[0] > first, "a heartbeat")
    for _ in range(taken):
        places.release()


async def test_a_clean_stop_is_recorded(broker_url: str) -> None:
    first = await new_run(broker_url)
    await first.start()
    await first.stop()
    assert one_row(broker_url, SEEN)[1] is not None
    async with running(broker_url):
        assert one_row(broker_url, SEEN)[1] is None


async def test_after_a_long_silence_everything_is_reported_again(run: BrokerRun, broker_url: str) -> None:
    await run.producer()
    await run.consumer()
    sessions = "SELECT key FROM vela_consumer_session UNION ALL SELECT key FROM vela_producer_session"
    await eventually(lambda: len(rows(broker_url, sessions)) == 2, "the report")
    rows(broker_url, "DELETE FROM vela_consumer_session RETURNING key")
    rows(broker_url, "DELETE FROM vela_producer_session RETURNING key")
    late = f"UPDATE vela_broker SET seen_at = now() - interval '{SILENT_S} s' RETURNING id"
    rows(broker_url, late)
    await eventually(lambda: len(rows(broker_url, sessions)) == 2, "another report")
