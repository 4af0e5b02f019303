"""An HTTP server inside the test's event loop. It answers as a script says, or not at all."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["DROP", "HttpRequest", "PullPeer", "ScriptedHttp"]

DROP = (0, b"")
"""An answer that only closes the connection."""

Answer = tuple[int, bytes]
Script = Callable[["HttpRequest"], Awaitable[Answer]]


@dataclass(frozen=True)
class HttpRequest:
    """One request."""

    method: str
    path: str  # decoded
    query: dict[str, str]
    fields: dict[str, str]  # names in lower case


class ScriptedHttp:
    """A server that keeps connections open and answers the requests of each one by one."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.heard: list[HttpRequest] = []
        self.open_connections = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """http://127.0.0.1:port."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield
        finally:
            self._server.close()
            self.drop_all()

    def drop_all(self) -> None:
        """Close every connection now."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.open_connections += 1
        answering: asyncio.Task[Answer] | None = None
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request = _request(head)
                self.heard.append(request)
                answering = asyncio.ensure_future(self.script(request))
                # This read ends only if the client leaves: no client sends a request before the last answer has come.
                gone = asyncio.ensure_future(reader.read(1))
                await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() or answering.result() == DROP:
                    return
                gone.cancel()
                await asyncio.wait((gone,))
                status, body = answering.result()
                writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            if answering is not None:
                answering.cancel()
            self.open_connections -= 1
            self._writers.discard(writer)
            writer.close()


def _request(head: bytes) -> HttpRequest:
    line, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = line.split(" ")
    parts = urlsplit(target)
    return HttpRequest(
        method,
        unquote(parts.path),
        {name: values[0] for name, values in parse_qs(parts.query).items()},
        {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)},
    )


@dataclass
class PullPeer:
    """A script for `ScriptedHttp`. It serves a topic's queues, parks pulls that ask to wait, and keeps offsets."""

    queues: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])
    least: int = 0  # the oldest offset that is kept, the same in every queue
    committed: dict[tuple[int, str], int] = field(default_factory=dict)
    refuse: Callable[[HttpRequest], Answer | None] = lambda request: None
    pulls: list[tuple[int, int]] = field(default_factory=list)  # (queue, offset) of each pull
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def publish(self, *payloads: bytes, queue: int = 0, tag: str | None = None) -> None:
        """Store messages, and wake parked pulls."""
        for payload in payloads:
            offset = len(self.queues[queue])
            properties = {} if tag is None else {"TAGS": tag}
            message = {
                "offset": offset,
                "message_id": f"5:{offset}" + (f":{queue}" if len(self.queues) > 1 else ""),
                "properties": properties,
                "publish_time_ms": 1000 + offset,
                "payload": base64.b64encode(payload).decode(),
            }
            self.queues[queue].append(message | ({} if tag is None else {"tag": tag}))
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def __call__(self, request: HttpRequest) -> Answer:
        """Answer as a broker does."""
        refused = self.refuse(request)
        if refused is not None:
            return refused
        queue = int(request.query.get("queue", "0"))
        if request.path.startswith("/pull/v1-queues/"):
            return _said({"queues": len(self.queues)})
        if request.path.startswith("/pull/v1-offset/"):
            return self._offset(request, queue)
        return await self._pull(request, queue)

    def _offset(self, request: HttpRequest, queue: int) -> Answer:
        key = queue, request.query["subscription"]
        if request.method == "PUT":
            self.committed[key] = max(self.committed.get(key, 0), int(request.query["offset"]))
        if key not in self.committed:
            return _said({"reason": f"no group {key[1]} has committed an offset"}, 404)
        return _said({"offset": self.committed[key]})

    async def _pull(self, request: HttpRequest, queue: int) -> Answer:
        offset = int(request.query["offset"])
        self.pulls.append((queue, offset))
        messages = self.queues[queue]
        if request.query.get("suspend") == "true":
            loop = asyncio.get_running_loop()
            until = loop.time() + int(request.query["suspend_timeout_ms"]) / 1000
            while offset == len(messages) and (left_s := until - loop.time()) > 0:
                try:
                    await asyncio.wait_for(self._arrived.wait(), left_s)
                except TimeoutError:
                    break
        end = len(messages)
        if not self.least <= offset <= end:
            return self._answer("PULL_OFFSET_MOVED", self.least if offset < self.least else end, [], end)
        after = min(end, offset + int(request.query["max_messages"]))
        tag = request.query.get("tags")
        matching = [each for each in messages[offset:after] if tag is None or each.get("tag") == tag]
        code = "PULL_NOT_FOUND" if offset == end else "SUCCESS" if matching else "PULL_RETRY_IMMEDIATELY"
        return self._answer(code, after, matching, end)

    def _answer(self, code: str, next_begin: int, messages: list[dict[str, Any]], end: int) -> Answer:
        return _said(
            {
                "code": code,
                "next_begin_offset": next_begin,
                "min_offset": self.least,
                "max_offset": end,
                "unreadable_messages": 0,
                "messages": messages,
            }
        )


def _said(fields: dict[str, Any], status: int = 200) -> Answer:
    return status, json.dumps(fields).encode()
