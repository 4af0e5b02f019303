"""The outcomes of a pull."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["PullCode"]


class PullCode(IntEnum):
    """The numbers are RocketMQ's. The answer to a pull contains the name."""

    SUCCESS = 0
    PULL_NOT_FOUND = 19  # nothing at that offset yet
    # messages, but none that the filter lets through: pull from next_begin_offset
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21  # the offset is not in the queue: continue at next_begin_offset
