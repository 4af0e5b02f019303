"""Read the CPU time and memory of Vela's processes from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CpuTime",
    "Processes",
    "cpu_s",
    "open_files",
    "peak_rss",
    "postgres_cpu_s",
    "private_bytes",
    "rss_bytes",
    "with_children",
]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """CPU seconds, user and system, used so far."""

    broker_s: float
    postgres_s: float  # the server and all its backends

    def __sub__(self, earlier: CpuTime) -> CpuTime:
        return CpuTime(
            broker_s=self.broker_s - earlier.broker_s, postgres_s=self.postgres_s - earlier.postgres_s
        )

    def per(self, messages: int) -> str:
        """Return both times, divided by the number of messages, in words."""
        each = 1e6 / max(1, messages)
        return (
            f"CPU a message: broker {self.broker_s * each:.2f} µs, PostgreSQL {self.postgres_s * each:.2f} µs"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The processes whose CPU time is counted."""

    broker_pid: int
    postgres_pid: int

    def cpu(self) -> CpuTime:
        """Return the CPU time so far."""
        return CpuTime(
            broker_s=cpu_s(self.broker_pid, ended_children=False),
            postgres_s=postgres_cpu_s(self.postgres_pid),
        )


@contextmanager
def peak_rss(pid: int) -> Iterator[list[int]]:
    """Watch a process while the block runs. Afterwards the yielded list has the largest resident size, in bytes."""
    peak: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        largest = rss_bytes(pid)
        while not stop.wait(_LOOK_EVERY_S):
            largest = max(largest, rss_bytes(pid))
        peak.append(largest)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def private_bytes(pid: int) -> int:
    """Return a process's anonymous resident memory, 0 if it has ended. It excludes files and shared memory."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    kib = next((line.split()[1] for line in text.splitlines() if line.startswith("RssAnon:")), "0")
    return int(kib) * 1024


def open_files(pid: int) -> int:
    """Return how many files a process has open, 0 if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def with_children(pid: int) -> list[int]:
    """Return a process and its direct children."""
    return [pid, *_children(pid)]


def cpu_s(pid: int, *, ended_children: bool) -> float:
    """Return the CPU seconds of a process so far, 0 if it has ended; `ended_children` adds its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    ticks = [int(field) for field in fields[11:15]]  # utime, stime, cutime, cstime
    return sum(ticks if ended_children else ticks[:2]) / _TICKS_PER_S


def postgres_cpu_s(pid: int) -> float:
    """Return the CPU seconds of PostgreSQL so far, including backends that have ended."""
    backends = _children(pid)
    return cpu_s(pid, ended_children=True) + sum(cpu_s(backend, ended_children=False) for backend in backends)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]
