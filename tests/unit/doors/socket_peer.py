"""The peer of a WebSocket in tests: a test gives it frames to send, and it records those that it gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broker.doors.asgi import CERTIFICATE
from broker.doors.websocket.transport import EXTENSION
from broker.listening.loop_time import LoopTime
from tests.unit.doors.wire_client import settle

if TYPE_CHECKING:
    from broker.core.access.credentials import ClientCertificate
    from broker.doors.asgi import Application


class FakeTransport:
    """A `FrameTransport` that records what is written."""

    def __init__(self) -> None:
        self.address = "test:1"
        self.share = LoopTime(now_ns=lambda: 0).share()
        self.writes: list[list[bytes]] = []
        self.unsent_bytes = 0
        self.writable = True
        self.closed: tuple[int, str] | None = None
        self.alive = True
        self._callbacks: list[Callable[[], None]] = []
        self._drained = asyncio.Event()

    def write_frames(self, payloads: Sequence[bytes], *, binary: bool) -> None:
        self.writes.append(list(payloads))

    def is_connected(self) -> bool:
        return self.closed is None

    def is_writable(self) -> bool:
        return self.writable

    def on_writable(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    async def drained(self) -> None:
        await self._drained.wait()

    async def is_alive(self, timeout_ms: int) -> bool:
        return self.alive

    def close(self, code: int, reason: str) -> None:
        self.closed = self.closed or (int(code), reason)

    def drain(self) -> None:
        """Let the peer read everything, so that the transport is writable again."""
        self.writable = True
        self._drained.set()
        for callback in self._callbacks:
            callback()


# Event loops refer to tasks only weakly: without this, the garbage collector could end a peer's task.
_TASKS: set[asyncio.Future[None]] = set()


class Peer:
    """The client of one socket, which runs as a task. `more` is added to its scope."""

    def __init__(
        self,
        application: Application,
        target: str,
        *,
        certificate: ClientCertificate | None = None,
        **more: object,
    ) -> None:
        self.transport = FakeTransport()
        self.sent: list[Mapping[str, Any]] = []
        self._events: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._events.put_nowait({"type": "websocket.connect"})
        self._seen = 0
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "websocket",
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode(),
            "extensions": {EXTENSION: self.transport, CERTIFICATE: certificate},
            **more,
        }
        self.task = asyncio.ensure_future(application(scope, self._events.get, self._send))
        _TASKS.add(self.task)
        self.task.add_done_callback(_TASKS.discard)

    async def _send(self, event: Mapping[str, Any]) -> None:
        self.sent.append(event)

    async def opened(self) -> Peer:
        """Wait for the handshake and check that it was accepted."""
        async with asyncio.timeout(5):
            while not (self.sent or self.task.done()):
                await settle()
        assert [event["type"] for event in self.sent] == ["websocket.accept"], self.sent
        return self

    async def refused(self) -> tuple[int, str]:
        """Return status and reason of the handshake, which must be refused."""
        await asyncio.wait_for(self.task, 5)
        start, body = self.sent
        assert body["type"] == "websocket.http.response.body"
        return start["status"], json.loads(body["body"])["reason"]

    async def tell(self, *frames: object) -> None:
        """Send frames, given as bytes, text or a value for JSON; then let everything run that is ready."""
        for frame in frames:
            event: dict[str, Any] = {"type": "websocket.receive"}
            if isinstance(frame, bytes):
                event["bytes"] = frame
            else:
                event["text"] = frame if isinstance(frame, str) else json.dumps(frame)
            self._events.put_nowait(event)
        await settle()

    def raw(self) -> list[bytes]:
        """Return the frames written since the last call."""
        frames = [frame for write in self.transport.writes[self._seen :] for frame in write]
        self._seen = len(self.transport.writes)
        return frames

    def heard(self) -> list[Any]:
        """Return the frames written since the last call, parsed as JSON."""
        return [json.loads(frame) for frame in self.raw()]

    async def leave(self, code: int = 1000) -> None:
        """Close the connection and wait for the socket's end."""
        self._events.put_nowait({"type": "websocket.disconnect", "code": code})
        await asyncio.wait_for(self.task, 5)
