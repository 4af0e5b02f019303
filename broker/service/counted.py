"""Numbers in the sentences that plans, results and refusals are made of."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str) -> str:
    """1 message is, 2 messages are."""
    return f"{number} {one if number == 1 else many}"
