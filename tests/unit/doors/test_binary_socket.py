"""`/ws/binary`: how the socket drives its connection."""

from __future__ import annotations

from typing import Any

import pytest

from broker.doors.websocket.application import websocket_application
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer


class Recorded:
    """Stands in for a BinaryConnection, and records what it is told."""

    def __init__(
        self, broker: object, link: Any, *, address: str, face: str, share: object, certificate: object
    ) -> None:
        self.link = link
        self.calls: list[object] = []
        made.append(self)

    def receive(self, data: bytes) -> None:
        self.calls.append(data)

    def writable_again(self) -> None:
        self.calls.append("writable")

    def lost(self) -> None:
        self.calls.append("lost")


made: list[Recorded] = []


async def test_a_paused_link_takes_no_frames_and_reports_the_end_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made.clear()
    monkeypatch.setattr("broker.doors.websocket.binary_socket.BinaryConnection", Recorded)
    peer = await Peer(websocket_application(FakeBroker()), "/ws/binary").opened()
    (connection,) = made
    connection.link.pause_reading()
    await peer.tell(b"first", b"second")
    assert connection.calls == [b"first"]
    connection.link.resume_reading()
    await peer.tell()
    assert connection.calls == [b"first", b"second"]
    peer.transport.drain()
    await peer.leave()
    assert connection.calls[2:] == ["writable", "lost"]
