"""What standard output can express."""

from __future__ import annotations

import codecs
from typing import TextIO

__all__ = ["writes_utf8"]


def writes_utf8(stream: TextIO) -> bool:
    """Return whether a stream can write every character."""
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"
