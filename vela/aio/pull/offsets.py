"""Where a pull consumer keeps its offsets: with the broker, in a file, in memory, or wherever the application likes."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from vela.aio.pull.http import PullHttp
from vela.errors import InvalidConfiguration

__all__ = ["BrokerOffsets", "FileOffsets", "MemoryOffsets", "OffsetStore"]


class OffsetStore(Protocol):
    """The next offset of each queue of a topic. A consumer calls one method at a time."""

    async def load(self, topic: str, queue: int) -> int | None:
        """What was saved last; None = nothing yet. What it raises ends the consumer's start."""

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Keep these, by queue; when this returns they are durable. What it raises is logged and tried again."""


class MemoryOffsets:
    """For tests, and for consumers that begin anew each time. May serve several consumers of one loop."""

    def __init__(self) -> None:
        self.saved: dict[tuple[str, int], int] = {}
        """Next offset by (topic, queue)."""

    async def load(self, topic: str, queue: int) -> int | None:
        """See `OffsetStore`."""
        return self.saved.get((topic, queue))

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """See `OffsetStore`."""
        self.saved |= {(topic, queue): offset for queue, offset in offsets.items()}


class FileOffsets:
    """A JSON file of the consumer's own. A save is all or nothing and on the disk, whatever dies meanwhile."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The file is made by the first save, its folder must be there. One consumer, in one process, uses it."""
        self._path = Path(path)
        self._writing = threading.Lock()  # a cancelled save goes on in its thread

    async def load(self, topic: str, queue: int) -> int | None:
        """See `OffsetStore`. Raises InvalidConfiguration for a file that is not of this kind."""
        return (await asyncio.to_thread(self._read)).get(topic, {}).get(str(queue))

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """See `OffsetStore`. Raises OSError, with the old file unharmed."""
        await asyncio.to_thread(self._write, topic, dict(offsets))

    def _read(self) -> dict[str, dict[str, int]]:
        try:
            topics = json.loads(self._path.read_bytes())
            if not all(isinstance(offset, int) for queues in topics.values() for offset in queues.values()):
                raise ValueError("an offset is no number")
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:
            raise InvalidConfiguration(
                f"{self._path} holds no offsets ({error}): mend it, or remove it to begin anew"
            ) from error
        return dict(topics)

    def _write(self, topic: str, offsets: Mapping[int, int]) -> None:
        with self._writing:
            self._replace(topic, offsets)

    def _replace(self, topic: str, offsets: Mapping[int, int]) -> None:
        topics = self._read()
        topics.setdefault(topic, {}).update({str(queue): offset for queue, offset in offsets.items()})
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(topics, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # else the old name may come back after a power cut
        finally:
            os.close(folder)


class BrokerOffsets:
    """The broker keeps them, as the cursor of a durable subscription: what a consumer does that is given no store."""

    def __init__(self, http: PullHttp, subscription: str) -> None:
        self._http = http
        self._subscription = subscription

    async def load(self, topic: str, queue: int) -> int | None:
        """See `OffsetStore`."""
        return await self._http.committed(queue, self._subscription)

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """See `OffsetStore`. A group's offset never goes back by this."""
        for queue, offset in offsets.items():
            await self._http.commit(queue, self._subscription, offset)
