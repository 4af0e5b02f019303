"""A WebSocket client that does little: it sends prepared frames, masked with zeros, and splits answers into frames."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

from bench.load.peers.binary import PeerFailed

__all__ = ["WebSocketPeer", "text_frame"]

_NO_MASK: Final = b"\0\0\0\0"
_CLOSE: Final = 8
_PING: Final = 9
_CONTROL: Final = 8  # opcodes from 8 up are control frames


def text_frame(payload: bytes) -> bytes:
    """Return a text frame as a client sends it."""
    return _frame(0x81, payload)


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", opcode, 0x80 | 127, size)
    return head + _NO_MASK + payload


class WebSocketPeer(asyncio.Protocol):
    """One connection. `on_frames` gets all text frames of one read, so that it can answer them in one write."""

    def __init__(self, request: bytes) -> None:
        self.on_frames: Callable[[list[bytes]], None] = lambda _: None
        self.failure: PeerFailed | None = None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._buffer = b""

    @classmethod
    async def connect(cls, port: int, path: str) -> WebSocketPeer:
        """Connect to 127.0.0.1. Raises PeerFailed with the server's answer if its status is not 101."""
        key = base64.b64encode(os.urandom(16)).decode()
        request = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
        _, peer = await asyncio.get_running_loop().create_connection(lambda: cls(request), "127.0.0.1", port)
        await asyncio.wait_for(peer.opened, 20)
        return peer

    def write(self, frames: Sequence[bytes]) -> None:
        """Send prepared frames."""
        self.transport.writelines(frames)

    def close(self) -> None:
        """Drop the connection."""
        self.transport.abort()

    def check(self) -> None:
        """Raise the connection's error, if there is one."""
        if self.failure is not None:
            raise self.failure

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was closed: {exc}")

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        if not self.opened.done():
            head, separator, data = data.partition(b"\r\n\r\n")
            if not separator:
                self._buffer = head
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self._fail(f"{head.decode(errors='replace')} {data.decode(errors='replace')}")
                return
            self.opened.set_result(None)
        frames: list[bytes] = []
        position, end = 0, len(data)
        while end - position >= 2:
            opcode, size = data[position] & 0x0F, data[position + 1]
            start = position + 2
            if size == 126:
                start += 2
                if start > end:
                    break
                size = int.from_bytes(data[start - 2 : start], "big")
            elif size == 127:
                start += 8
                if start > end:
                    break
                size = int.from_bytes(data[start - 8 : start], "big")
            if start + size > end:
                break
            if opcode < _CONTROL:
                frames.append(data[start : start + size])
            else:
                self._control(opcode, data[start : start + size])
            position = start + size
        self._buffer = data[position:]
        if frames:
            try:
                self.on_frames(frames)
            except (PeerFailed, ValueError) as error:
                self._fail(f"{error}, in {frames[0][:200]!r}")
                self.transport.abort()

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            self.transport.write(_frame(0x8A, payload))
        elif opcode == _CLOSE:
            self._fail(
                f"closed with {int.from_bytes(payload[:2], 'big')} {payload[2:].decode(errors='replace')}"
            )

    def _fail(self, why: str) -> None:
        self.failure = self.failure or PeerFailed(why)
        if not self.opened.done():
            self.opened.set_exception(self.failure)
