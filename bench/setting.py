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
    is_quick: bool  # short runs and small preloads, which only show that the benchmark works
    repeats: int  # runs for each figure, at least 3
    # Ask only about parts with this in their names, if the question has parts: those of `fairness` are its loads.
    part: str = ""

    @property
    def pulsar_port(self) -> int:
        """The port of the binary protocol on 127.0.0.1."""
        return int(self.vela.environment["VELA_PULSAR_PORT"])

    @property
    def http_port(self) -> int:
        """The broker's port for HTTP and WebSocket on 127.0.0.1."""
        return int(self.vela.environment["VELA_HTTP_PORT"])

    @property
    def warm_up_s(self) -> float:
        """How long a load runs before the measurement begins."""
        return 0.5 if self.is_quick else 2.0

    @property
    def run_s(self) -> float:
        """How long one run is measured."""
        return 2.0 if self.is_quick else 10.0

    def sized(self, full: int, quick: int) -> int:
        """Return the size of a preload: `full`, or `quick` in a quick run."""
        return quick if self.is_quick else full

    def fresh_topic(self, prefix: str) -> str:
        """Return the name of a new topic."""
        return f"persistent://public/default/{prefix}-{secrets.token_hex(4)}"

    def say(self, text: str) -> None:
        """Print progress to standard error. Only the table goes to standard output."""
        sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()
