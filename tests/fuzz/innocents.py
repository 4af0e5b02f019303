"""Two of Apache's clients that do nothing wrong, while other clients send hostile inputs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

import pulsar

__all__ = ["Innocents"]

_PATIENCE_MS: Final = 20_000
_REST_MS: Final = 500  # a second delivery of a message would come sooner


@dataclass(slots=True)
class Innocents:
    """A producer that waits for each message until its consumer has it. Each must come once and in order."""

    url: str
    round_trips: int = 0
    slowest_s: float = 0.0
    error: Exception | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin to exchange messages, in a thread."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for the last message, and raise the error if one occurred."""
        self._ended.set()
        self._thread.join(60)
        if self.error is not None:
            raise self.error
        assert self.round_trips, "the innocent clients exchanged no message"

    def _run(self) -> None:
        client = pulsar.Client(self.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            consumer = client.subscribe("innocent", "s")
            producer = client.create_producer("innocent")
            while not self._ended.is_set():
                began_s = time.perf_counter()
                producer.send(b"%d" % self.round_trips)
                message = consumer.receive(_PATIENCE_MS)
                assert message.data() == b"%d" % self.round_trips, f"{message.data()!r} came"
                consumer.acknowledge(message)
                self.round_trips += 1
                self.slowest_s = max(self.slowest_s, time.perf_counter() - began_s)
            try:
                more = consumer.receive(_REST_MS)
            except pulsar.Timeout:
                return
            raise AssertionError(f"{more.data()!r} came twice")
        except Exception as error:
            self.error = error
        finally:
            client.close()
