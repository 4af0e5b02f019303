"""How much CPU time and how many rows does the delivery story of a message cost?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import psycopg

from bench.figures import Figure
from bench.load.end_to_end import binary_latency
from bench.load.open_loop import run_exactly
from bench.setting import Setting
from tests.support.api import create_topic

__all__ = ["ask"]

PER_S: Final = 1000.0
PAYLOAD_BYTES: Final = 1024
_MODES: Final = ("off", "redelivered", "all")
_WRITTEN_S: Final = 3.0  # the broker writes rows once a second
_STORED: Final = "SELECT count(*), coalesce(sum(pg_column_size(s)), 0)::bigint FROM vela_delivery_story s"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """The cost of messages that are sent alone, delivered once and acked in order."""

    cpu_us: float  # of one message, broker and PostgreSQL
    rows: float  # of a thousand messages, which share rows
    row_bytes: float  # of a thousand messages, without indexes


def ask(setting: Setting) -> list[Figure]:
    """Send the same messages under each value of the policy `delivery_story`, run by run."""
    costs: dict[str, list[_Cost]] = {mode: [] for mode in _MODES}
    _measure(setting, "all")  # the first rows extend the table and WAL, and fill caches
    for _ in range(setting.repeats):
        for mode, found in costs.items():
            found.append(_measure(setting, mode))
            setting.say(f"delivery_story {mode}: {found[-1]}")
    off = [each.cpu_us for each in costs["off"]]
    figures = [Figure(name="CPU a message, delivery_story off", unit="µs", runs=tuple(off))]
    for mode in ("redelivered", "all"):
        more = tuple(each.cpu_us - less for each, less in zip(costs[mode], off, strict=True))
        figures.append(Figure(name=f"  {mode}, more than off", unit="µs", runs=more))
    for mode in ("redelivered", "all"):
        found = costs[mode]
        figures += [
            Figure(name=f"rows of 1,000 messages, {mode}", unit="", runs=tuple(each.rows for each in found)),
            Figure(name="  their bytes", unit="B", runs=tuple(each.row_bytes for each in found)),
        ]
    return figures


def _measure(setting: Setting, mode: str) -> _Cost:
    topic = setting.fresh_topic(f"story-{mode}")
    create_topic(setting.vela, topic, delivery_story=mode)
    load = binary_latency(
        setting.pulsar_port,
        topic,
        payload_bytes=PAYLOAD_BYTES,
        per_s=PER_S,
        warm_up_s=setting.warm_up_s,
        run_s=setting.run_s,
    )
    messages = round(PER_S * (setting.warm_up_s + setting.run_s))
    rows_before, bytes_before = _stored(setting)
    cpu_before = setting.processes.cpu()
    run_exactly(load)
    time.sleep(_WRITTEN_S)
    used = setting.processes.cpu() - cpu_before
    rows, row_bytes = _stored(setting)
    return _Cost(
        cpu_us=1e6 * (used.broker_s + used.postgres_s) / messages,
        rows=1000 * (rows - rows_before) / messages,
        row_bytes=1000 * (row_bytes - bytes_before) / messages,
    )


def _stored(setting: Setting) -> tuple[int, int]:
    with psycopg.connect(setting.vela.database_url) as connection:
        found = connection.execute(_STORED).fetchone()
    assert found is not None
    return found[0], found[1]
