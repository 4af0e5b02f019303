"""Answer `GET /live?key=topic:5&key=sub:9` with a stream of the keys whose data has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from channels.auth import get_user
from channels.consumer import get_handler_name
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.http import AsyncHttpConsumer
from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError
from django.http import QueryDict

from console.access import rights_of
from console.blocks import KEYS_PER_STREAM
from console.live.feed import EVERY_PAGE, Feed, group_of, is_key
from console.people.languages import LANGUAGE_NAMES
from console.people.no_role import NO_ROLE
from console.queries.rights import NOTHING, Scope, keys_in

__all__ = ["Live"]

# If a page hears nothing for 3.5 s, it asks whether the console still answers.
HEARTBEAT_S: Final = 2.0
RECHECK_S: Final = 60.0
COALESCE_S: Final = 2.0
STREAMS_PER_USER: Final = 24

_HEADERS: Final = [
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache"),
    (b"X-Accel-Buffering", b"no"),  # Makes nginx forward each event at once
    (b"X-Content-Type-Options", b"nosniff"),
]

logger = logging.getLogger(__name__)


class Live(AsyncHttpConsumer):  # type: ignore[misc]  # Channels has no types
    """Tells a page which data has changed, and which problems the broker, Celery and the database have.

    The browser then requests the changed data, so that the user's current rights apply.
    """

    def __init__(self, *, feed: Feed) -> None:
        super().__init__()
        self._feed = feed
        self._user_id: int | None = None  # None until the stream has joined the feed
        self._keys: frozenset[str] = frozenset()
        self._scope = NOTHING
        self._language = "en"
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._check: asyncio.Task[bool] | None = None

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Call the method that handles a message. Channels' own dispatch would first close old database connections."""
        await getattr(self, get_handler_name(message))(message)

    async def http_request(self, message: dict[str, Any]) -> None:
        """Open or refuse the stream. Channels' own method would end the stream."""
        if message.get("more_body"):
            return
        refusal = self._refusal() or await self._nothing_to_follow()
        if refusal is not None:
            status, text = refusal
            await self.send_response(status, text.encode(), headers=[(b"Content-Type", b"text/plain")])
            raise StopConsumer
        self._user_id = self.scope["user"].pk
        self._feed.join(self._user_id, self._keys)
        await self._join_groups()
        await self.send_headers(headers=_HEADERS)
        await self.send_body(b"retry: 3000\n\n", more_body=True)
        await self.page_health({})
        # If the feed is not listening yet, it sends page_unsure when it begins to listen.
        if self._feed.is_listening:
            await self.page_unsure({})
        self._writer = asyncio.get_running_loop().create_task(self._write())

    async def http_disconnect(self, message: dict[str, Any]) -> None:
        raise StopConsumer

    async def page_changed(self, message: dict[str, Any]) -> None:
        self._changed.add(message["key"])
        self._woken.set()

    async def page_unsure(self, message: dict[str, Any]) -> None:
        """Send every key, because anything on the page may have changed."""
        self._changed |= self._keys
        self._woken.set()

    async def page_health(self, message: dict[str, Any]) -> None:
        event = self._feed.watch.event(self._language, self._scope)
        if event and not (self._writer is not None and self._writer.done()):
            await self.send_body(event.encode(), more_body=True)

    def _refusal(self) -> tuple[int, str] | None:
        if self.scope["method"] != "GET":
            return 405, "Use GET."
        user = self.scope["user"]
        if not user.is_authenticated:
            return 401, "Log in first."
        query = QueryDict(self.scope["query_string"])
        asked = query.getlist("key")
        self._language = language if (language := query.get("language", "")) in LANGUAGE_NAMES else "en"
        self._keys = frozenset(key for key in asked[:KEYS_PER_STREAM] if is_key(key))
        if asked and not self._keys:
            return 400, "Say what to follow: key=topic:5, key=sub:9, key=act:7 or key=acts."
        if self._feed.streams_of(user.pk) >= STREAMS_PER_USER:
            return 429, "You have too many pages open. Close some."
        return None

    async def _nothing_to_follow(self) -> tuple[int, str] | None:
        allowed = await _allowed(self.scope["user"], self._keys)
        if allowed is None:
            return 403, NO_ROLE
        self._scope, self._keys = allowed
        return None

    async def _join_groups(self) -> None:
        for group in (EVERY_PAGE, *map(group_of, self._keys)):
            await self.channel_layer.group_add(group, self.channel_name)

    async def _leave(self) -> None:
        for task in (self._writer, self._check):
            if task is not None:
                task.cancel()
        if self._user_id is None:
            return
        self._feed.leave(self._user_id, self._keys)
        for group in (EVERY_PAGE, *map(group_of, self._keys)):
            await self.channel_layer.group_discard(group, self.channel_name)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        checked_s = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._woken.wait()
            if loop.time() - checked_s >= RECHECK_S:
                is_valid = self._checked()
                if is_valid is False:
                    break
                if is_valid:
                    await self._join_groups()  # Memberships in groups expire after a day
                    checked_s = loop.time()
            changed = sorted(self._changed)
            self._changed.clear()
            self._woken.clear()
            text = "".join(f"event: {key}\ndata:\n\n" for key in changed) or ": still here\n\n"
            await self.send_body(text.encode(), more_body=True)
            await self.page_health({})
            if changed:
                await asyncio.sleep(COALESCE_S)
        await self.send_body(b"event: ended\ndata:\n\n")

    def _checked(self) -> bool | None:
        """Return whether the user may still see the page, or None if the answer is not known yet.

        The check is a separate task, so that the heartbeats continue even if the database does not answer.
        """
        if self._check is None:
            if self._feed.watch.is_answering:
                self._check = asyncio.create_task(self._may_still_look())
            return None
        if not self._check.done():
            return None
        check, self._check = self._check, None
        try:
            return check.result()
        except DatabaseError as error:
            logger.warning(
                "cannot check the session of a live stream; the next heartbeat checks it again: %s", error
            )
            return None

    async def _may_still_look(self) -> bool:
        session = self.scope["session"]
        again = session.__class__(session.session_key)  # The old object would return cached data
        user = await get_user({"session": again})
        allowed = await _allowed(user, self._keys) if user.is_authenticated else None
        if allowed is None or allowed[1] != self._keys:
            return False
        self._scope = allowed[0]
        return True


@database_sync_to_async  # type: ignore[untyped-decorator]  # Channels has no types
def _allowed(user: AbstractBaseUser, keys: frozenset[str]) -> tuple[Scope, frozenset[str]] | None:
    rights = rights_of(user)
    return (rights.scope, keys_in(rights.scope, keys)) if rights.sees_anything else None
