"""The description of a started server that the comparison uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One started server."""

    url: str  # for the load generator
    protocol: str  # the generator's name for it: pulsar, nats, rabbitmq or pgmq; a `loader` ignores it
    facts: Mapping[str, str]  # versions and settings, as they are printed
    cpu_s: Callable[[], Mapping[str, float]]  # CPU seconds so far, by part of the server
    loader: Sequence[str] = ()  # a program that loads it instead of the generator, with the same options
    is_job_queue: bool = False  # it can only do the work that is for job queues
    has_batches: bool = True  # its client makes batches
    is_quickly_filled: bool = True  # it stores a million messages in seconds
    pulsar_port: int | None = None  # where it speaks Pulsar's binary protocol
    websocket_port: int | None = None  # where it speaks Pulsar's WebSocket API
    commits: Callable[[], int] | None = None  # transactions of its database so far
