"""Metrics of the disk of the embedded PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["DiskMetrics"]


class DiskMetrics(Collector):
    """Reads the size and free space of a folder's disk."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        free = GaugeMetricFamily(
            "vela_database_disk_free_bytes", "free bytes on the disk of the embedded PostgreSQL"
        )
        size = GaugeMetricFamily(
            "vela_database_disk_size_bytes", "bytes of the disk of the embedded PostgreSQL"
        )
        if self._folder is not None:
            with suppress(OSError):
                usage = shutil.disk_usage(self._folder)
                free.add_metric((), usage.free)
                size.add_metric((), usage.total)
        yield free
        yield size
