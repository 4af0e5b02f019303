"""The compactions of a topic and its partitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from console.queries.database import fetch
from console.queries.topics.log import Ends

__all__ = ["CompactionRow", "compactions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """The compaction of a topic or of a partition.

    Before the first run begins, the counts are None. From then until the first success, `kept_messages`, `kept_bytes`,
    `removed_messages` and `duration_ms` are 0.
    """

    topic: str
    partition: int  # -1 means that the topic is not a partition
    state: str  # NOT_RUN, RUNNING, SUCCESS or ERROR
    last_error: str
    horizon: str | None  # Last compacted entry, written as ledger:entry
    kept_messages: int | None
    kept_bytes: int | None
    removed_messages: int | None  # Messages removed by the latest successful run
    duration_ms: int | None  # Duration of the latest successful run
    backlog_messages: int | None  # Messages published after the horizon
    backlog_bytes: int | None
    started_at: datetime | None
    succeeded_at: datetime | None
    failed_at: datetime | None
    retry_at: datetime | None


def compactions(topic_id: int, ends: Ends) -> list[CompactionRow]:
    """Return the compaction of a topic, or of each of its partitions."""
    return fetch(CompactionRow, "topic", "compactions", {"topic_id": topic_id, **asdict(ends)})
