"""How close does publishing in batches come to what PostgreSQL can take?"""

from __future__ import annotations

import asyncio
import statistics
from itertools import count, islice

import pulsar

from bench.ceilings.raw_copy import ceiling_tables, copy_for
from bench.figures import Figure, Goal, ratio_percent
from bench.load.messages import entries
from bench.load.publishing.apache import publish_with_apache
from bench.load.publishing.binary import publish_count, publish_for
from bench.setting import Setting

__all__ = ["ask"]

WINDOW = 64  # batches without a receipt
ENTRIES_A_COMMIT = (8, 32)  # about 1 and 4 MiB: the ceiling is the better of the two rates
_RATIO = Goal(at_least=60.0)


def ask(setting: Setting) -> list[Figure]:
    """Publish 1 KB and 100 B messages to Vela, copy the same rows to PostgreSQL, and publish with Apache's client."""
    figures: list[Figure] = []
    for label, payload_bytes in (("1 KB", 1024), ("100 B", 100)):
        entry = entries.batch(payload_bytes)
        asyncio.run(publish_count(setting.pulsar_port, setting.fresh_topic("first"), entry, 1, window=1))
        with ceiling_tables(setting.vela.database_url):
            figures += _batches(setting, label, entry)
        figures.append(_apache(setting, label, payload_bytes))
    return figures


def _batches(setting: Setting, label: str, entry: entries.Entry) -> list[Figure]:
    new_ledgers = count(1)
    reached: list[float] = []
    ceilings: dict[int, list[float]] = {1: [], 2: []}
    best: dict[int, list[int]] = {1: [], 2: []}
    notes: list[str] = []
    for _ in range(setting.repeats):
        cpu = setting.processes.cpu()
        published = asyncio.run(
            publish_for(
                setting.pulsar_port,
                setting.fresh_topic("publish"),
                entry,
                window=WINDOW,
                warm_up_s=setting.warm_up_s,
                run_s=setting.run_s,
            )
        )
        reached.append(published.per_s)
        used = setting.processes.cpu() - cpu
        whole_s = setting.run_s + setting.warm_up_s
        notes.append(used.per(round(published.per_s * whole_s)))
        for connections, values in ceilings.items():
            tried = [
                copy_for(
                    setting.vela.database_url,
                    entry,
                    ledger_ids=list(islice(new_ledgers, connections)),
                    entries_per_commit=entries_per_commit,
                    warm_up_s=setting.warm_up_s / 2,
                    run_s=setting.run_s / 2,
                )
                for entries_per_commit in ENTRIES_A_COMMIT
            ]
            winner = max(tried, key=lambda ceiling: ceiling.per_s)
            values.append(winner.per_s)
            best[connections].append(winner.entries_per_commit)
        setting.say(
            f"publish {label}: {reached[-1]:,.0f} msg/s; raw {ceilings[1][-1]:,.0f} and {ceilings[2][-1]:,.0f};"
            f" {notes[-1]}"
        )
    better = [max(pair) for pair in zip(ceilings[1], ceilings[2], strict=True)]
    mib_s = statistics.median(reached) / entry.messages * len(entry.data) / 2**20
    return [
        Figure(
            name=f"binary publish, {label}, batches of {entry.messages}",
            unit="msg/s",
            runs=tuple(reached),
            note=f"{mib_s:.0f} MiB/s; window {WINDOW} batches; {notes[-1]}",
        ),
        *(
            Figure(
                name=f"  raw COPY, {connections} connection{'s' if connections > 1 else ''}",
                unit="msg/s",
                runs=tuple(values),
                note=f"entries a commit: {', '.join(map(str, best[connections]))}",
            )
            for connections, values in ceilings.items()
        ),
        Figure(name="  of the better ceiling", unit="%", runs=ratio_percent(reached, better), goal=_RATIO),
    ]


def _apache(setting: Setting, label: str, payload_bytes: int) -> Figure:
    client = pulsar.Client(setting.vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        runs = [publish_with_apache(setting, client, payload_bytes) for _ in range(setting.repeats)]
    finally:
        client.close()
    setting.say(f"publish {label} by pulsar-client: {runs[-1]:,.0f} msg/s")
    return Figure(
        name=f"  pulsar-client, {label}",
        unit="msg/s",
        runs=tuple(runs),
        note="batching, 20,000 pending; the Python client itself is the limit",
    )
