"""The setting of a question: a running Vela, and how long and how often to measure."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass

from bench.usage import Processes
from tests.support.vela import VelaProcess

__all__ = ["Setting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run of the benchmark."""

    vela: VelaProcess
    processes: Processes
    is_quick: bool  # short runs and small preloads: they show that it works, not how fast it is
    repeats: int  # runs for each figure, at least 3
    part: str = ""  # ask only what has this in its name, if the question has parts: `fairness` has its loads

    @property
    def pulsar_port(self) -> int:
        """Where the binary protocol is spoken, on 127.0.0.1."""
        return int(self.vela.environment["VELA_PULSAR_PORT"])

    @property
    def http_port(self) -> int:
        """Where the broker speaks HTTP and WebSocket, on 127.0.0.1."""
        return int(self.vela.environment["VELA_HTTP_PORT"])

    @property
    def warm_up_s(self) -> float:
        """Load before the clock starts."""
        return 0.5 if self.is_quick else 2.0

    @property
    def run_s(self) -> float:
        """Length of one measured run."""
        return 2.0 if self.is_quick else 10.0

    def sized(self, full: int, quick: int) -> int:
        """A preload's size."""
        return quick if self.is_quick else full

    def fresh_topic(self, prefix: str) -> str:
        """Return the name of a new topic."""
        return f"persistent://public/default/{prefix}-{secrets.token_hex(4)}"

    def say(self, text: str) -> None:
        """Print progress to standard error. Only the table goes to standard output."""
        sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()
