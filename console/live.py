"""Thin server-sent events: "this changed", never what it changed to (console rules 3 and 13).

One LISTEN connection a process hears the owners' NOTIFY and wakes the streams that asked for those keys. A stream
holds no database connection of its own while it waits; the browser reads the block again, with the rights it has then.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import psycopg
from asgiref.sync import sync_to_async
from django.contrib.auth import aget_user, get_user
from django.contrib.auth.decorators import login_not_required
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

__all__ = ["HEARTBEAT_S", "Feed", "Listener", "events", "live"]

HEARTBEAT_S = 15.0
RECHECK_S = 60.0
COALESCE_S = 1.0
KEYS_PER_STREAM = 200
STREAMS_PER_USER = 24
RECONNECT_S = 2.0

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Listener:
    """One stream: what it asked for, and what of that has changed since it last sent."""

    keys: frozenset[str]
    user_id: int
    changed: set[str] = field(default_factory=set)
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Feed:
    """Fans one connection's notifications out to this process's streams. Lives in one event loop.

    The connection is opened with the first stream and closed with the last; while it is lost the streams' browsers are
    told by `*`, once it is back, to read everything again.
    """

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None

    def streams_of(self, user_id: int) -> int:
        """How many streams one person has open."""
        return sum(listener.user_id == user_id for listener in self._listeners)

    def join(self, listener: Listener) -> None:
        """Start hearing. Call from the loop."""
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listen())

    def leave(self, listener: Listener) -> None:
        """Stop hearing; the last one out closes the connection. Safe to call twice."""
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    def tell(self, keys: Iterable[str]) -> None:
        """Wake the streams that asked for one of the keys; `*` wakes all."""
        told = set(keys)
        for listener in self._listeners:
            meant = listener.keys if "*" in told else listener.keys & told
            if meant:
                listener.changed |= meant
                listener.woken.set()

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except (psycopg.Error, OSError) as error:
                logger.warning("the console's LISTEN connection is lost, trying again: %s", error)
            await asyncio.sleep(RECONNECT_S)

    async def _hear(self) -> None:
        parameters = connections["default"].get_connection_params()
        wanted = {
            name: value for name, value in parameters.items() if name not in ("context", "cursor_factory")
        }
        async with await psycopg.AsyncConnection.connect(**wanted, autocommit=True) as connection:
            await connection.execute("LISTEN vela_page")
            await connection.execute("LISTEN vela_act_done")
            self.tell("*")
            async for notification in connection.notifies():
                self.tell(_keys_of(notification.channel, notification.payload))


def _keys_of(channel: str, payload: str) -> list[str]:
    if channel == "vela_act_done":
        return ["acts", f"act:{payload}"]
    try:
        keys = json.loads(payload)
    except ValueError:
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


_feeds: dict[asyncio.AbstractEventLoop, Feed] = {}


def _feed() -> Feed:
    """The feed of the running loop: the server has one loop, each test its own."""
    loop = asyncio.get_running_loop()
    for other in [known for known in _feeds if known.is_closed()]:
        del _feeds[other]
    return _feeds.setdefault(loop, Feed())


@login_not_required  # it answers 401 itself: a stream cannot follow a redirect to a page
async def live(request: HttpRequest) -> HttpResponseBase:
    """The stream of one tab: `?key=topic:5&key=sub:9`. 401 when not logged in, 429 with too many streams."""
    user = await aget_user(request)
    if not user.is_authenticated or user.pk is None:
        return HttpResponse("Log in first.", status=401, content_type="text/plain")
    feed = _feed()
    if feed.streams_of(user.pk) >= STREAMS_PER_USER:
        return HttpResponse("Too many pages are open.", status=429, content_type="text/plain")
    listener = Listener(keys=frozenset(request.GET.getlist("key")[:KEYS_PER_STREAM]), user_id=user.pk)
    await sync_to_async(_release_connections)()
    response = StreamingHttpResponse(
        events(request, feed, listener),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-cache"},
    )
    response["X-Accel-Buffering"] = "no"
    return response


async def events(request: HttpRequest, feed: Feed, listener: Listener) -> AsyncIterator[str]:
    """The stream's text, until the browser leaves or the person may no longer look."""
    loop = asyncio.get_running_loop()
    feed.join(listener)
    checked = loop.time()
    number = 0
    try:
        yield "retry: 3000\n\n"
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await listener.woken.wait()
            except TimeoutError:
                yield ": still here\n\n"
            if loop.time() - checked >= RECHECK_S:
                if not await _may_still_look(request):
                    yield "event: ended\ndata: {}\n\n"
                    return
                checked = loop.time()
            if listener.changed:
                number += 1
                changed = sorted(listener.changed)
                listener.changed.clear()
                listener.woken.clear()
                yield f"id: {number}\ndata: {json.dumps(changed)}\n\n"
                await asyncio.sleep(COALESCE_S)
    finally:
        feed.leave(listener)


async def _may_still_look(request: HttpRequest) -> bool:
    """Is the session still that of an active user. Holds a connection for the question only."""

    def ask() -> bool:
        # The request has its session and user in hand already: what counts is what the store says now.
        again = HttpRequest()
        again.session = type(request.session)(request.session.session_key)
        try:
            return get_user(again).is_authenticated
        finally:
            _release_connections()

    return await sync_to_async(ask)()


def _release_connections() -> None:
    """Give back what this request's thread holds: a stream may stay for hours."""
    connections.close_all()
