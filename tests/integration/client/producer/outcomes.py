"""Steps that these tests share."""

from __future__ import annotations

import asyncio
from typing import Any

from vela.aio.producers.send_answers import SendFuture
from vela.message import MessageId

__all__ = ["ALONE", "BATCHED", "answers", "kinds", "note"]

ALONE: dict[str, Any] = {}
BATCHED: dict[str, Any] = {"batching_enabled": True}


async def answers(futures: list[SendFuture]) -> list[MessageId | BaseException]:
    """Return the outcome of each send."""
    return await asyncio.gather(*futures, return_exceptions=True)


def kinds(outcomes: list[Any]) -> list[type]:
    """Return the class of each outcome, which is an id or an error."""
    return [type(outcome) for outcome in outcomes]


def note(seen: list[int], number: int, _future: SendFuture) -> None:
    """A callback of futures, which records the order in which they are done."""
    seen.append(number)
