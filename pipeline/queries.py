"""The named queries of pipeline/sql, read once."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

__all__ = ["query"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def query(name: str, file: str = "read") -> bytes:
    """Return a query, without its comments, from a file in pipeline/sql. Raises KeyError if it is not there."""
    parts = _NAME.split(files("pipeline").joinpath("sql", f"{file}.sql").read_text("utf-8"))
    body = dict(zip(parts[1::2], parts[2::2], strict=True))[name]
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().encode()
