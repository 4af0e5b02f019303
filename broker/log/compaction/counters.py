"""Metrics of a topic's compactions since the topic was loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.storage.log.compaction import CompactionResult

__all__ = ["CompactionCounters"]


@dataclass(slots=True, kw_only=True)
class CompactionCounters:
    """Counts of runs and removed messages. The last three fields describe the latest successful run."""

    succeeded: int = 0
    failed: int = 0
    removed_messages: int = 0
    duration_ms: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def succeed(self, result: CompactionResult, *, read_bytes: int) -> None:
        """Count a successful run."""
        self.succeeded += 1
        self.removed_messages += result.removed_messages
        self.duration_ms = result.duration_ms
        self.read_bytes = read_bytes
        self.written_bytes = result.kept.size_bytes

    @property
    def has_run(self) -> bool:
        """Whether any run has succeeded or failed."""
        return bool(self.succeeded or self.failed)

    def per_s(self, size_bytes: int) -> float:
        """Divide a size by the duration of the latest successful run, in seconds."""
        return size_bytes * 1000 / max(1, self.duration_ms)
