"""The lists of topics that clients watch, one for each namespace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.core.topic_name import parse_namespace

if TYPE_CHECKING:
    from broker.core.topic_pattern import TopicPattern
    from broker.tasks import BackgroundTasks

__all__ = ["TopicListWatch", "TopicLists", "matching"]

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.1  # Pause after each read, so that a burst of new topics causes few reads
_RETRY_S: Final = 5.0
_SLICE_S: Final = 0.001

OnChange: TypeAlias = Callable[[frozenset[str], frozenset[str]], None]
"""A function that receives the names that were added and the names that were removed."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Matched:
    """The topics that a pattern chooses in one namespace."""

    pattern: TopicPattern
    names: frozenset[str]
    watches: set[TopicListWatch] = field(default_factory=set)


@dataclass(slots=True, kw_only=True, eq=False)
class _Namespace:
    name: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # Held while the list is read and compared
    names: frozenset[str] | None = None
    matched: dict[str, _Matched] = field(default_factory=dict)  # Keys are the texts of the patterns
    opening: int = 0  # Number of watches that are being opened
    is_stale: bool = False
    is_refreshing: bool = False


class TopicListWatch:
    """One client's watch of a namespace."""

    def __init__(self, matched: _Matched, on_change: OnChange, on_end: Callable[[], None]) -> None:
        self._matched = matched
        self._on_change = on_change
        self._on_end = on_end
        self.is_open = True
        matched.watches.add(self)

    @property
    def names(self) -> frozenset[str]:
        """The full names of the topics that the pattern chooses now."""
        return self._matched.names

    def detach(self) -> None:
        """End the watch. Safe to repeat."""
        if self.is_open:
            self.is_open = False
            self._matched.watches.discard(self)
            self._on_end()

    def changed(self, added: frozenset[str], removed: frozenset[str]) -> None:
        """Report a change to the client, unless the watch has ended."""
        if self.is_open:
            self._on_change(added, removed)


class TopicLists:
    """The namespaces that clients watch.

    `read` returns the persistent topics of a namespace, with partitions instead of partitioned topics.
    """

    def __init__(
        self, read: Callable[[str, str], Awaitable[Collection[str]]], tasks: BackgroundTasks
    ) -> None:
        self._read = read
        self._tasks = tasks
        self._namespaces: dict[str, _Namespace] = {}

    async def watch(self, namespace: str, pattern: TopicPattern, on_change: OnChange) -> TopicListWatch:
        """Watch the topics that a pattern chooses in a namespace. The namespace need not exist.

        Raises InvalidTopicName, and the errors of `read`.
        """
        parse_namespace(namespace)
        place = self._namespaces.setdefault(namespace, _Namespace(name=namespace))
        place.opening += 1
        try:
            async with place.lock:
                if place.names is None:
                    place.names = await self._names(place)
                matched = place.matched.get(pattern.text)
                if matched is None:
                    chosen = frozenset(await matching(pattern, place.names))
                    matched = place.matched[pattern.text] = _Matched(pattern=pattern, names=chosen)
                return TopicListWatch(matched, on_change, lambda: self._ended(place, matched))
        finally:
            place.opening -= 1
            self._forget_unused(place)

    def changed(self, namespace: str) -> None:
        """If clients watch this namespace, read its list again in the background."""
        place = self._namespaces.get(namespace)
        if place is None:
            return
        place.is_stale = True
        if not place.is_refreshing:
            place.is_refreshing = True
            self._tasks.keep(asyncio.create_task(self._refresh(place), name=f"topics of {namespace}"))

    def all_changed(self) -> None:
        """Read every watched list again in the background, because notifications may have been lost."""
        for namespace in list(self._namespaces):
            self.changed(namespace)

    async def _refresh(self, place: _Namespace) -> None:
        try:
            while place.is_stale and self._namespaces.get(place.name) is place:
                place.is_stale = False
                pause_s = _PAUSE_S
                try:
                    async with place.lock:
                        await self._compare(place)
                except Exception:
                    place.is_stale, pause_s = True, _RETRY_S  # Try again even if no notification follows
                    logger.exception(
                        "listing topics for clients that watch them failed; next try in %.0f s: namespace %s",
                        pause_s,
                        place.name,
                    )
                await asyncio.sleep(pause_s)
        finally:
            place.is_refreshing = False

    async def _compare(self, place: _Namespace) -> None:
        now, before = await self._names(place), place.names or frozenset()
        came, went = now - before, before - now
        slices = _Slices()
        for matched in list(place.matched.values()):
            names = (matched.names - went).union(await matching(matched.pattern, came))
            added, removed = names - matched.names, matched.names - names
            matched.names = names
            if added or removed:
                for watch in list(matched.watches):
                    watch.changed(added, removed)
                    await slices.pause()
            await slices.pause()
        place.names = now

    async def _names(self, place: _Namespace) -> frozenset[str]:
        return frozenset(await self._read(*parse_namespace(place.name)))

    def _ended(self, place: _Namespace, matched: _Matched) -> None:
        if not matched.watches and place.matched.get(matched.pattern.text) is matched:
            del place.matched[matched.pattern.text]
            self._forget_unused(place)

    def _forget_unused(self, place: _Namespace) -> None:
        if not place.matched and not place.opening:
            self._namespaces.pop(place.name, None)


class _Slices:
    """Divides long work into slices, so that the event loop can do other work between two slices."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + _SLICE_S

    async def pause(self) -> None:
        if self._loop.time() > self._until_s:
            await asyncio.sleep(0)
            self._until_s = self._loop.time() + _SLICE_S


async def matching(pattern: TopicPattern, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern chooses."""
    slices, chosen = _Slices(), []
    for name in names:
        if pattern.matches(name):
            chosen.append(name)
        await slices.pause()
    return chosen
