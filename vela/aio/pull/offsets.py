"""Stores for the offsets of a pull consumer: the broker, a file, memory, or your own."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from vela.aio.pull.http import PullHttp
from vela.errors import ConsumerBusy, InvalidConfiguration, TopicNotFound, VelaError

__all__ = ["BrokerOffsets", "FileOffsets", "MemoryOffsets", "OffsetStore"]

_OF_ONE_QUEUE: Final = (ConsumerBusy, InvalidConfiguration, TopicNotFound)
"""Refusals that concern one queue, for example because a consumer that acks by itself uses its subscription."""


class OffsetStore(Protocol):
    """Stores the next offset of each queue of a topic. A consumer calls one method at a time."""

    async def load(self, topic: str, queue: int) -> int | None:
        """Return the offset saved last; None = nothing was saved yet. An error makes the consumer's `start` fail."""

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Store offsets by queue. They must be durable on return. After an error, the consumer tries again."""


class MemoryOffsets:
    """An `OffsetStore` in memory, for tests and for consumers that need no stored offsets. Consumers may share it."""

    def __init__(self) -> None:
        self.saved: dict[tuple[str, int], int] = {}
        """Next offset by (topic, queue)."""

    async def load(self, topic: str, queue: int) -> int | None:
        return self.saved.get((topic, queue))

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.saved |= {(topic, queue): offset for queue, offset in offsets.items()}


class FileOffsets:
    """An `OffsetStore` in a JSON file. A crash during a save leaves the old or the new offsets, complete."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The first save creates the file; its folder must exist. Only one consumer in one process may use it."""
        self._path = Path(path)
        self._writing = threading.Lock()  # a cancelled save continues on its thread

    async def load(self, topic: str, queue: int) -> int | None:
        """Return the offset saved last; None = nothing was saved yet.

        Raises InvalidConfiguration if the file does not contain offsets.
        """
        return (await asyncio.to_thread(self._read)).get(topic, {}).get(str(queue))

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Store offsets by queue. After an error, the file has the old or the new offsets.

        Raises OSError and the errors of `load`.
        """
        await asyncio.to_thread(self._write, topic, dict(offsets))

    def _read(self) -> dict[str, dict[str, int]]:
        try:
            topics = json.loads(self._path.read_bytes())
            if not all(isinstance(offset, int) for queues in topics.values() for offset in queues.values()):
                raise ValueError("an offset is not a number")
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as error:
            raise InvalidConfiguration(
                f"{self._path} does not contain offsets ({error}): repair it, or remove it to start without offsets"
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
            os.fsync(folder)  # else the old file may reappear after a power failure
        finally:
            os.close(folder)


class BrokerOffsets:
    """An `OffsetStore` at the broker: the cursors of a durable subscription. This is the default."""

    def __init__(self, http: PullHttp, subscription: str) -> None:
        self._http = http
        self._subscription = subscription

    async def load(self, topic: str, queue: int) -> int | None:
        return await self._http.committed(queue, self._subscription)

    async def save(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Store offsets by queue. This never moves a group's offset back.

        If the broker refuses the offset of a queue, this still stores those of the others, and then raises the refusal.
        """
        refusal: VelaError | None = None
        for queue, offset in offsets.items():
            try:
                await self._http.commit(queue, self._subscription, offset)
            except _OF_ONE_QUEUE as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
