"""The kinds of work that servers are given, in the order of the printed table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.load.fan_out import binary_batches, fan_out_for
from bench.load.messages.json_frames import consumer_path, producer_path
from bench.load.websocket_load import Cycled, cycle_for, publish_for
from bench.peers.generator import Generator
from bench.peers.server import Server

__all__ = ["WORKS", "Outcome", "Task", "Work", "suits"]

_PAYLOAD_BYTES: Final = 1024
_JSON_WINDOW: Final = 64
_BATCHED_WINDOW: Final = 20_000
_SINGLE_WINDOW: Final = 1000
_SUBSCRIPTIONS: Final = 5
_CYCLED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run of one kind of work."""

    server: Server
    generator: Generator
    warm_up_s: float
    run_s: float
    topic: str  # a new one for each run

    def stored(self, messages: int) -> int:
        """Return how many of the messages to store. Slow servers, which would need minutes, get fewer."""
        return messages if self.server.is_quickly_filled else messages // 20

    @property
    def times(self) -> Mapping[str, float]:
        """The generator's options for how long to run."""
        return {"warm_up": self.warm_up_s, "measure": self.run_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run measured."""

    values: Mapping[str, float]  # by the names of the work's figures
    messages: int  # of the whole run, warm-up included; its CPU time is divided by this number


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One kind of work."""

    title: str
    unit: str  # msg/s, where more is better, or ms, where less is
    run: Callable[[Task], Outcome]
    figures: tuple[str, ...] = ("per_s",)
    prepare: Callable[[Task], None] = lambda _: None  # before each run; its CPU does not count
    needs_websocket: bool = False
    needs_batches: bool = False  # the server's client must make batches
    is_for_jobs: bool = False  # a job queue can do it


def suits(work: Work, server: Server) -> bool:
    """Return whether the server can do the work."""
    return (
        (not work.needs_websocket or server.websocket_port is not None)
        and (not work.needs_batches or server.has_batches)
        and (not server.is_job_queue or work.is_for_jobs)
    )


def _publish(
    payload_bytes: int, *, is_batched: bool, producers: int = 1, has_topics_apart: bool = False
) -> Callable[[Task], Outcome]:
    def run(task: Task) -> Outcome:
        return _outcome(
            task.generator.run(
                task.server,
                "publish",
                task.topic,
                bytes=payload_bytes,
                window=_BATCHED_WINDOW if is_batched else _SINGLE_WINDOW,
                batched=is_batched,
                producers=producers,
                topics_apart=has_topics_apart,
                **task.times,
            )
        )

    return run


def _fill(payload_bytes: int, count: int, *, is_batched: bool = True) -> Callable[[Task], None]:
    def fill(task: Task) -> None:
        task.generator.run(
            task.server,
            "fill",
            task.topic,
            bytes=payload_bytes,
            window=_BATCHED_WINDOW if is_batched else _SINGLE_WINDOW,
            count=task.stored(count),
            batched=is_batched,
        )

    return fill


def _drain(count: int) -> Callable[[Task], Outcome]:
    def run(task: Task) -> Outcome:
        return _outcome(task.generator.run(task.server, "drain", task.topic, count=task.stored(count)))

    return run


def _cycle(task: Task) -> Outcome:
    return _outcome(
        task.generator.run(
            task.server, "cycle", task.topic, bytes=100, window=_SINGLE_WINDOW, count=task.stored(_CYCLED)
        )
    )


def _latency(task: Task) -> Outcome:
    return _outcome(task.generator.run(task.server, "latency", task.topic, rate=1000, **task.times))


def _outcome(figures: Mapping[str, float]) -> Outcome:
    return Outcome(values=figures, messages=round(figures["everything"]))


def _websocket_publish(task: Task) -> Outcome:
    assert task.server.websocket_port is not None
    return _cycled(
        asyncio.run(
            publish_for(
                task.server.websocket_port,
                producer_path(_full_name(task)),
                payload_bytes=_PAYLOAD_BYTES,
                window=_JSON_WINDOW,
                warm_up_s=task.warm_up_s,
                run_s=task.run_s,
            )
        )
    )


def _websocket_cycle(task: Task) -> Outcome:
    assert task.server.websocket_port is not None
    topic = _full_name(task)
    return _cycled(
        asyncio.run(
            cycle_for(
                task.server.websocket_port,
                producer_path(topic),
                consumer_path(topic, "s"),
                payload_bytes=_PAYLOAD_BYTES,
                window=_JSON_WINDOW,
                warm_up_s=task.warm_up_s,
                run_s=task.run_s,
            )
        )
    )


def _websocket_fan_out(task: Task) -> Outcome:
    port, websocket_port = task.server.pulsar_port, task.server.websocket_port
    assert port is not None
    assert websocket_port is not None
    per_s, delivered = asyncio.run(
        fan_out_for(
            port,
            websocket_port,
            _full_name(task),
            lambda topic: binary_batches(port, topic),
            subscriptions=_SUBSCRIPTIONS,
            warm_up_s=task.warm_up_s,
            run_s=task.run_s,
            acks_a_frame=1,
        )
    )
    return Outcome(values={"per_s": per_s}, messages=delivered)


def _full_name(task: Task) -> str:
    return f"persistent://public/default/{task.topic}"


def _cycled(cycled: Cycled) -> Outcome:
    return Outcome(values={"per_s": cycled.per_s}, messages=cycled.everything)


WORKS: Final[Mapping[str, Work]] = {
    "publish-100": Work(
        title="publish, 100 B, batched", unit="msg/s", run=_publish(100, is_batched=True), needs_batches=True
    ),
    "publish-100-two": Work(
        title="publish, 100 B, batched, 2 producers",
        unit="msg/s",
        run=_publish(100, is_batched=True, producers=2),
        needs_batches=True,
    ),
    "publish-100-apart": Work(
        title="publish, 100 B, batched, 2 producers, one topic each",
        unit="msg/s",
        run=_publish(100, is_batched=True, producers=2, has_topics_apart=True),
        needs_batches=True,
    ),
    "publish-1k": Work(
        title="publish, 1 KB, batched", unit="msg/s", run=_publish(1024, is_batched=True), needs_batches=True
    ),
    "publish-1k-two": Work(
        title="publish, 1 KB, batched, 2 producers",
        unit="msg/s",
        run=_publish(1024, is_batched=True, producers=2),
        needs_batches=True,
    ),
    "publish-1k-apart": Work(
        title="publish, 1 KB, batched, 2 producers, one topic each",
        unit="msg/s",
        run=_publish(1024, is_batched=True, producers=2, has_topics_apart=True),
        needs_batches=True,
    ),
    "publish-100-single": Work(
        title="publish, 100 B, one by one", unit="msg/s", run=_publish(100, is_batched=False)
    ),
    "publish-1k-single": Work(
        title="publish, 1 KB, one by one", unit="msg/s", run=_publish(1024, is_batched=False)
    ),
    "drain-100": Work(
        title="drain, 100 B", unit="msg/s", run=_drain(1_000_000), prepare=_fill(100, 1_000_000)
    ),
    "drain-1k": Work(title="drain, 1 KB", unit="msg/s", run=_drain(200_000), prepare=_fill(1024, 200_000)),
    "drain-100-single": Work(
        title="drain, 100 B, published one by one",
        unit="msg/s",
        run=_drain(200_000),
        prepare=_fill(100, 200_000, is_batched=False),
    ),
    "drain-1k-single": Work(
        title="drain, 1 KB, published one by one",
        unit="msg/s",
        run=_drain(200_000),
        prepare=_fill(1024, 200_000, is_batched=False),
    ),
    "jobs": Work(
        title="jobs: publish, deliver and ack each, 100 B", unit="msg/s", run=_cycle, is_for_jobs=True
    ),
    "latency": Work(
        title="end to end, 1 KB at 1,000 msg/s",
        unit="ms",
        figures=("p50_ms", "p99_ms", "p999_ms"),
        run=_latency,
    ),
    "websocket-publish": Work(
        title="WebSocket publish, 1 KB", unit="msg/s", run=_websocket_publish, needs_websocket=True
    ),
    "websocket-cycle": Work(
        title="WebSocket publish, delivery and ack, 1 KB",
        unit="msg/s",
        run=_websocket_cycle,
        needs_websocket=True,
    ),
    "websocket-fan-out": Work(
        title="WebSocket, 64 B to 5 subscriptions, in total",
        unit="msg/s",
        run=_websocket_fan_out,
        needs_websocket=True,
    ),
}
