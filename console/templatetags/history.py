"""Template tags that draw small line charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.history import tiles
from console.history.sparkline import HEIGHT, WIDTH, Sparkline
from console.words.numerals import UNKNOWN, count

__all__ = ["register"]

register = template.Library()


@register.simple_tag
def sparkline(
    lines: Mapping[tuple[int, int], Sparkline], topic_id: int, subscription_id: int = 0
) -> SafeString | str:
    """Draw the backlog of a topic or subscription in the last hour.

    Python builds the SVG, because a template would take five times as long.
    """
    line = lines.get((topic_id, subscription_id))
    if line is None or not line.path:
        return UNKNOWN
    label = _("Backlog: {first} an hour ago, at most {most}, now {last}").format(
        first=count(line.first), most=count(line.most), last=count(line.last)
    )
    return format_html(
        '<svg class="sparkline" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        ' aria-label="{label}"><path d="{path}" /></svg>',
        width=WIDTH,
        height=HEIGHT,
        label=label,
        path=line.path,
    )


@register.inclusion_tag("console/tile_line.html")
def tile_line(tile: tiles.Tile) -> dict[str, Any]:
    """Draw the line chart of one number on the overview page."""
    return {"tile": tile, "width": tiles.WIDTH, "height": tiles.HEIGHT}
