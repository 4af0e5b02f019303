"""How fast does Apache's own client receive a stored backlog of small messages?"""

from __future__ import annotations

import asyncio
import time

import pulsar

from bench.ceilings.raw_read import read_all
from bench.figures import Figure, Goal, ratio_percent
from bench.load.messages import entries
from bench.load.publishing.binary import publish_count
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 100
_GOAL = Goal(at_least=150_000.0)
_RECEIVER_QUEUE = 10_000  # messages; with the default of 1,000, one full batch is the whole window


def ask(setting: Setting) -> list[Figure]:
    """In each run, receive everything with each receiver queue. Use a new subscription from the beginning each time."""
    topic = setting.fresh_topic("backlog")
    entry = entries.batch(PAYLOAD_BYTES)
    batches = setting.sized(2000, 200)
    asyncio.run(publish_count(setting.pulsar_port, topic, entry, batches, window=64))
    messages = batches * entry.messages
    reached: dict[int, list[float]] = {_RECEIVER_QUEUE: [], 1000: []}
    ceilings: list[float] = []
    notes: list[str] = []
    for run in range(setting.repeats):
        for queue, values in reached.items():
            cpu = setting.processes.cpu()
            values.append(_receive(setting, topic, f"s{queue}-{run}", queue, messages))
            if queue == _RECEIVER_QUEUE:
                notes.append((setting.processes.cpu() - cpu).per(messages))
        ceilings.append(read_all(setting.vela.database_url, topic, rows_a_statement=100))
        setting.say(
            f"consume backlog: {reached[_RECEIVER_QUEUE][-1]:,.0f} msg/s, queue 1,000: {reached[1000][-1]:,.0f};"
            f" raw read {ceilings[-1]:,.0f}; {notes[-1]}"
        )
    main = tuple(reached[_RECEIVER_QUEUE])
    return [
        Figure(
            name=f"pulsar-client from backlog, {PAYLOAD_BYTES} B",
            unit="msg/s",
            runs=main,
            goal=_GOAL,
            note=f"{messages:,} messages, receiver queue {_RECEIVER_QUEUE:,}; {notes[-1]}",
        ),
        Figure(name="  with the default receiver queue of 1,000", unit="msg/s", runs=tuple(reached[1000])),
        Figure(name="  raw read of the same rows", unit="msg/s", runs=tuple(ceilings)),
        Figure(name="  of the raw read", unit="%", runs=ratio_percent(main, ceilings)),
    ]


def _receive(setting: Setting, topic: str, subscription: str, queue: int, messages: int) -> float:
    client = pulsar.Client(setting.vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        began = time.perf_counter()
        consumer = client.subscribe(
            topic,
            subscription,
            receiver_queue_size=queue,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        receive = consumer.receive
        for _ in range(messages):
            last = receive(30_000)
        seconds = time.perf_counter() - began
        consumer.acknowledge_cumulative(last)
        consumer.close()
        return messages / seconds
    finally:
        client.close()
