"""Read a page as a browser without scripts shows it."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["text_of"]


def text_of(response: Any) -> str:
    """Return the words of a page, without tags and layout, and with plain spaces in place of narrow spaces."""
    html = response.content.decode()
    html = re.sub(r"<(script|style|title|template)\b.*?</\1>", " ", html, flags=re.DOTALL)
    words = re.sub(r"<[^>]+>", " ", html).replace("\u202f", " ")
    return re.sub(r"\s+", " ", words)
