"""Wait for the end of a run, however long it takes, as long as there is progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from bench.load.peers.binary import PeerFailed

__all__ = ["until"]

_LOOK_EVERY_S = 0.005
_PATIENCE_S = 60.0


class _Checked(Protocol):
    def check(self) -> None: ...


async def until(
    is_done: Callable[[], bool], progress: Callable[[], int], peers: Sequence[_Checked], what: str
) -> None:
    """Wait until `is_done`. Raises a peer's error, and PeerFailed if `progress` does not change for a minute."""
    seen, moved = progress(), time.monotonic()
    while not is_done():
        await asyncio.sleep(_LOOK_EVERY_S)
        for peer in peers:
            peer.check()
        now = progress()
        if now != seen:
            seen, moved = now, time.monotonic()
        elif time.monotonic() - moved > _PATIENCE_S:
            raise PeerFailed(f"{what}: nothing more came after {now}")
