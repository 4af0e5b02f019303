"""Limit how much one topic may add to one SQL statement of the writer.

While topics with few messages (light topics) publish, no topic may add more than `BESIDE_LIGHT`, so that light topics
need not wait. At other times, this limit does not apply, because small statements would lower the throughput by a
third.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BESIDE_LIGHT", "STATEMENT", "Size", "TopicLimit"]


class Size(NamedTuple):
    """The size of a statement or of a part of a statement."""

    entries: int
    size_bytes: int


# More than 1,000 entries would only add latency. The broker stops reading from a client that has 4 MiB of unanswered
# sends, so it can receive 2 MiB while it stores the other 2 MiB.
STATEMENT: Final = Size(1000, 2 * 1024 * 1024)
BESIDE_LIGHT: Final = Size(100, 256 * 1024)
_LASTS_S: Final = 0.1  # How long `BESIDE_LIGHT` applies after a light topic has published


class TopicLimit:
    """The limit on one topic's part of a statement."""

    def __init__(self) -> None:
        self._latest_topic_id: int | None = None
        self._is_latest_light = False
        self._beside_light_until_s = 0.0

    def now(self, now_s: float) -> Size:
        """Return how much one topic may add to a statement now."""
        return BESIDE_LIGHT if now_s < self._beside_light_until_s else STATEMENT

    def took(self, topic_id: int, part: Size, *, has_more: bool, now_s: float) -> None:
        """Record the part that a topic added."""
        is_light = (
            not has_more and part.entries < BESIDE_LIGHT.entries and part.size_bytes < BESIDE_LIGHT.size_bytes
        )
        is_other = self._latest_topic_id not in (None, topic_id)
        if is_other and (is_light or self._is_latest_light):
            self._beside_light_until_s = now_s + _LASTS_S
        self._latest_topic_id, self._is_latest_light = topic_id, is_light
