"""How much one topic may add to a statement of the writer.

A busy topic could fill whole statements, and light topics would wait. The event loop needs about 15 µs for each entry.
While light topics publish, no topic may add more than `BESIDE_LIGHT`. Busy topics alone have no such limit, because
small statements would make each of them store a third less.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BESIDE_LIGHT", "STATEMENT", "Size", "TopicLimit"]


class Size(NamedTuple):
    """The size of a statement, or of one topic's part of it."""

    entries: int
    size_bytes: int


# 1,000 rows of 1 KB take about 15 ms. More rows only add latency. 2 MiB is half of what one connection may send
# without a receipt, because one half commits while the other half gathers.
STATEMENT: Final = Size(1000, 2 * 1024 * 1024)
BESIDE_LIGHT: Final = Size(100, 256 * 1024)
# How long `BESIDE_LIGHT` applies after a light topic and another topic took turns.
_LASTS_S: Final = 0.1


class TopicLimit:
    """The limit of one topic's part of a statement."""

    def __init__(self) -> None:
        self._latest_topic_id: int | None = None
        self._is_latest_light = False
        self._beside_light_until_s = 0.0

    def now(self, now_s: float) -> Size:
        """Return how much one topic may add to a statement now."""
        return BESIDE_LIGHT if now_s < self._beside_light_until_s else STATEMENT

    def took(self, topic_id: int, part: Size, *, has_more: bool, now_s: float) -> None:
        """Record the part that a topic took. `has_more` tells whether sends of the topic still wait."""
        is_light = (
            not has_more and part.entries < BESIDE_LIGHT.entries and part.size_bytes < BESIDE_LIGHT.size_bytes
        )
        is_other = self._latest_topic_id not in (None, topic_id)
        if is_other and (is_light or self._is_latest_light):
            self._beside_light_until_s = now_s + _LASTS_S
        self._latest_topic_id, self._is_latest_light = topic_id, is_light
