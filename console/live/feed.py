"""Forward PostgreSQL's notifications to the live streams."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import psycopg
from channels.layers import get_channel_layer
from psycopg.abc import PQGen

from console.live.watch import Watch
from console.queries.database import parameters_of

__all__ = ["EVERY_PAGE", "Feed", "group_of", "is_key"]

EVERY_PAGE: Final = "page"  # The channel-layer group that every stream joins

_KEY: Final = re.compile(r"(?:topic|sub|act):[0-9]{1,19}|acts")
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
# By default, psycopg wakes every 0.1 s to check for Ctrl-C. A longer interval does not delay notifications.
_WAKE_S: Final = 5.0

T = TypeVar("T")

logger = logging.getLogger(__name__)


def is_key(text: str) -> bool:
    """Return whether the text is a key such as `topic:5`, `sub:9`, `act:7` or `acts`."""
    return _KEY.fullmatch(text) is not None


def group_of(key: str) -> str:
    """Return the group of the streams that follow a key. Group names cannot contain a colon."""
    return f"{EVERY_PAGE}.{key.replace(':', '.')}"


class _Listening(psycopg.AsyncConnection[tuple[Any, ...]]):
    async def wait(self, gen: PQGen[T], interval: float = _WAKE_S, timeout: float | None = None) -> T:
        return await super().wait(gen, interval=interval, timeout=timeout)


class Feed:
    """Sends each key in a notification to the key's group.

    All streams must run on one event loop.
    """

    def __init__(self) -> None:
        self._watched: Counter[str] = Counter()
        self._streams: Counter[int] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_listening = False
        self.watch = Watch(self._health_changed)

    def streams_of(self, user_id: int) -> int:
        """Return how many streams a user has open."""
        return self._streams[user_id]

    def join(self, user_id: int, keys: Iterable[str]) -> None:
        """Count a stream, and start to listen if it is the first."""
        self._streams[user_id] += 1
        self._watched.update(keys)
        if not self._tasks:
            self.watch = Watch(self._health_changed)
            self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self.watch.run())]

    def leave(self, user_id: int, keys: Iterable[str]) -> None:
        """Forget a stream, and stop listening if it was the last."""
        self._streams -= Counter([user_id])
        self._watched -= Counter(keys)
        if not self._streams:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _health_changed(self) -> None:
        await get_channel_layer().group_send(EVERY_PAGE, {"type": "page.health"})

    async def _listen(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._hear()
            except (psycopg.Error, OSError) as error:
                pause_s = _FIRST_PAUSE_S if self.is_listening else min(pause_s * 2, _LONGEST_PAUSE_S)
                logger.warning(
                    "the console's LISTEN connection failed; pages are stale until it is back; retry in %g s: %s",
                    pause_s,
                    error,
                )
            finally:
                self.is_listening = False
            await asyncio.sleep(pause_s)

    async def _hear(self) -> None:
        layer = get_channel_layer()
        parameters = parameters_of("default")
        async with await _Listening.connect(**parameters, autocommit=True) as connection:
            await connection.execute("LISTEN vela_page")
            await connection.execute("LISTEN vela_act_done")
            self.is_listening = True
            # Earlier notifications are lost, so every page must read its data again.
            await layer.group_send(EVERY_PAGE, {"type": "page.unsure"})
            async for notification in connection.notifies():
                for key in _keys_of(notification.channel, notification.payload):
                    if key in self._watched:
                        await layer.group_send(group_of(key), {"type": "page.changed", "key": key})


def _keys_of(name: str, payload: str) -> list[str]:
    if name == "vela_act_done":
        return ["acts", f"act:{payload}"]
    try:
        keys = json.loads(payload)
    except ValueError:
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
