"""What standard output can express."""

from __future__ import annotations

import codecs
from typing import IO

__all__ = ["writes_utf8"]


def writes_utf8(stream: IO[str]) -> bool:
    """Return whether a text stream can write every character."""
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"
