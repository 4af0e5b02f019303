"""The questions, by name, in the order they are asked; one file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.figures import Figure
from bench.questions import (
    bad_peers,
    console_pages,
    delayed,
    fairness,
    held_pulls,
    held_snapshot,
    latency,
    many_topics,
    reset,
    spark,
    steady_disk,
    storm,
    websocket_cycle,
)
from bench.questions.consuming import ack_holes, backlog, drain, fan_out, key_shared, shared_random
from bench.questions.consuming import client as client_consume
from bench.questions.lasting import disturbed_latency, endurance
from bench.questions.operating import admin_calls, idle, memory, metrics_page, story
from bench.questions.publishing import binary as publish_binary
from bench.questions.publishing import client as client_publish
from bench.questions.publishing import websocket as websocket_publish
from bench.setting import Setting

__all__ = ["QUESTIONS", "SETTINGS"]

QUESTIONS: Mapping[str, Callable[[Setting], list[Figure]]] = {
    "publish_binary": publish_binary.ask,
    "client_publish": client_publish.ask,
    "consume_backlog": backlog.ask,
    "client_consume": client_consume.ask,
    "websocket_publish": websocket_publish.ask,
    "websocket_cycle": websocket_cycle.ask,
    "latency": latency.ask,
    "disturbed_latency": disturbed_latency.ask,
    "drain": drain.ask,
    "shared_random": shared_random.ask,
    "key_shared": key_shared.ask,
    "ack_holes": ack_holes.ask,
    "fan_out": fan_out.ask,
    "reset": reset.ask,
    "held_snapshot": held_snapshot.ask,
    "bad_peers": bad_peers.ask,
    "fairness": fairness.ask,
    "storm": storm.ask,
    "held_pulls": held_pulls.ask,
    "delayed": delayed.ask,
    "steady_disk": steady_disk.ask,
    "endurance": endurance.ask,
    "memory": memory.ask,
    "many_topics": many_topics.ask,
    "idle": idle.ask,
    "metrics_page": metrics_page.ask,
    "admin_calls": admin_calls.ask,
    "story": story.ask,
    "console_pages": console_pages.ask,
    "spark": spark.ask,
}

# Settings of Vela for questions that need others than the defaults.
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "disturbed_latency": disturbed_latency.SETTINGS,
    "endurance": endurance.SETTINGS,
    "memory": memory.SETTINGS,
    "steady_disk": steady_disk.SETTINGS,
}
