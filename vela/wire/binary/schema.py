"""A schema, as the protocol carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema as a client announces it, or as a broker returns it."""

    name: str
    type: int  # Schema.Type of the protocol
    data: bytes
    properties: Mapping[str, str]
