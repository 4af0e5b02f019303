"""Minimal clients of the pull API: each has one keep-alive connection and always one open pull."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Final, cast

from bench.load.peers.binary import PeerFailed

__all__ = ["PullWaiter"]

_HEAD_END: Final = b"\r\n\r\n"


class PullWaiter(asyncio.Protocol):
    """Pulls a topic's messages, and waits for new ones, until it is closed; `on_payload` gets each payload."""

    def __init__(self, port: int, topic: str, on_payload: Callable[[bytes], None]) -> None:
        self.failure: PeerFailed | None = None
        self._host = f"127.0.0.1:{port}"
        self._path = "/pull/v1/" + topic.partition("://")[2]
        self._on_payload = on_payload
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, port: int, topic: str, on_payload: Callable[[bytes], None]) -> PullWaiter:
        """Connect to 127.0.0.1 and pull from the topic's beginning."""
        loop = asyncio.get_running_loop()
        _, waiter = await loop.create_connection(lambda: cls(port, topic, on_payload), "127.0.0.1", port)
        return waiter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first pull."""
        self._transport = cast(asyncio.Transport, transport)
        self._pull(0)

    def data_received(self, data: bytes) -> None:
        """Read the answer, once it is complete, and send the next pull."""
        self._buffer += data
        head, separator, rest = self._buffer.partition(_HEAD_END)
        if not separator:
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) < size:
            return
        self._buffer = b""
        if b" 200 " not in head.split(b"\r\n")[0]:
            self.failure = PeerFailed(f"a pull was refused: {rest[:200]!r}")
            return
        answer = json.loads(rest)
        self._pull(answer["next_begin_offset"])
        for message in answer["messages"]:
            self._on_payload(base64.b64decode(message["payload"]))

    def connection_lost(self, error: Exception | None) -> None:
        """Record a failure, unless `close` was called."""
        if self._transport is not None:
            self.failure = PeerFailed(f"the connection of a parked pull was lost: {error}")

    def close(self) -> None:
        """Close the connection and give up the open pull."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.close()

    def _pull(self, offset: int) -> None:
        if self._transport is not None:
            self._transport.write(
                f"GET {self._path}?offset={offset}&suspend=true&suspend_timeout_ms=60000 HTTP/1.1\r\n"
                f"Host: {self._host}\r\n\r\n".encode()
            )
