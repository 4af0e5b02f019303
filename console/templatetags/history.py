"""The tags that draw small lines: the sparkline of a row, and the line of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from console.history import tiles
from console.history.sparkline import HEIGHT, WIDTH, Sparkline

__all__ = ["register"]

register = template.Library()


@register.inclusion_tag("console/sparkline.html")
def sparkline(
    lines: Mapping[tuple[int, int], Sparkline], topic_id: int, subscription_id: int = 0
) -> dict[str, Any]:
    """Draw the line of a topic, or of one of its subscriptions; a dash if nothing is known about it."""
    return {"line": lines.get((topic_id, subscription_id)), "width": WIDTH, "height": HEIGHT}


@register.inclusion_tag("console/tile_line.html")
def tile_line(tile: tiles.Tile) -> dict[str, Any]:
    """Draw the last hour of one of the overview's numbers; nothing if too little is known."""
    return {"tile": tile, "width": tiles.WIDTH, "height": tiles.HEIGHT}
