"""Clients that ask for messages and do not read them, and clients that send without waiting."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from bench.load.messages import entries
from bench.load.messages.json_frames import MessageFrames, consumer_path, producer_path
from bench.load.peers.websocket import text_frame
from vela.wire.binary import commands
from vela.wire.binary.enums import InitialPosition, SubType

__all__ = [
    "binary_flood",
    "binary_not_reading",
    "refused_requests",
    "websocket_flood",
    "websocket_not_reading",
    "websocket_refused",
]

_CONNECT = commands.connect(client_version="vela-bench-bad", protocol_version=21)
_PERMITS = 1_000_000


@contextmanager
def binary_not_reading(port: int, topic: str) -> Iterator[None]:
    """Hold a consumer that grants a million permits and then never reads its connection."""
    subscribe = commands.subscribe(
        topic,
        "not-reading",
        type=SubType.EXCLUSIVE,
        consumer_id=0,
        request_id=1,
        initial_position=InitialPosition.EARLIEST,
    )
    with _connected(port) as peer:
        _connect(peer)
        peer.sendall(subscribe)
        _read_until(peer, lambda data: data.count(b"\x08\x0d") > 0)  # SUCCESS
        peer.sendall(commands.flow(0, _PERMITS))
        yield


@contextmanager
def websocket_not_reading(port: int, topic: str) -> Iterator[None]:
    """Hold a JSON consumer that never reads after the handshake."""
    with _connected(port) as peer:
        _shake_hands(peer, port, consumer_path(topic, "not-reading"))
        yield


@contextmanager
def binary_flood(port: int, topic: str, payload: bytes, *, reads_receipts: bool = False) -> Iterator[None]:
    """Run a producer that sends as much as the socket takes.

    If it reads no receipts, the broker stops reading from it when the buffers are full, after about 300,000 receipts.
    """
    with _connected(port) as peer:
        _connect(peer)
        peer.sendall(commands.producer(topic, producer_id=0, request_id=1, user_provided_name=False))
        _read_until(peer, lambda data: data.count(b"\x08\x11") > 0)  # PRODUCER_SUCCESS
        frame = b"".join(commands.send(0, 0, entries.single(payload).data))
        with _pouring(peer, frame * 64), _draining(peer) if reads_receipts else nullcontext():
            yield


@contextmanager
def websocket_flood(
    port: int, topic: str, payload_bytes: int, *, reads_receipts: bool = False
) -> Iterator[None]:
    """Run a JSON producer that sends as much as the socket takes.

    Receipts are longer than those of `binary_flood`, so unread ones fill the buffers sooner.
    """
    with _connected(port) as peer:
        _shake_hands(peer, port, producer_path(topic))
        frames = MessageFrames(payload_bytes).frame(0) * 64
        with _pouring(peer, frames), _draining(peer) if reads_receipts else nullcontext():
            yield


@contextmanager
def refused_requests(port: int, *, connections: int) -> Iterator[None]:
    """Run connections that send wrong requests as fast as they can, and read the broker's refusals."""
    requests = [
        commands.partition_metadata("persistent://no/such name", request_id=1),
        commands.lookup("persistent://public/default/a/b", request_id=2),
        commands.get_schema("persistent://public/default/nobody-made-this", request_id=3),
        commands.subscribe(
            "wrong://public/default/topic", "refused", type=SubType.SHARED, consumer_id=1, request_id=4
        ),
    ]
    with contextlib.ExitStack() as open_peers:
        for _ in range(connections):
            peer = open_peers.enter_context(_connected(port))
            _connect(peer)
            open_peers.enter_context(_pouring(peer, b"".join(requests) * 64))
            open_peers.enter_context(_draining(peer))
        yield


@contextmanager
def websocket_refused(port: int, topic: str, *, connections: int) -> Iterator[None]:
    """Run JSON producers that send wrong messages as fast as they can, and read the broker's refusals."""
    with contextlib.ExitStack() as open_peers:
        for _ in range(connections):
            peer = open_peers.enter_context(_connected(port))
            _shake_hands(peer, port, producer_path(topic))
            open_peers.enter_context(_pouring(peer, text_frame(b'{"payload":"not base64!"}') * 256))
            open_peers.enter_context(_draining(peer))
        yield


@contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        yield peer
        # Reset the connection instead of closing it, since nobody will read the data on its way.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _connect(peer: socket.socket) -> None:
    peer.sendall(_CONNECT)
    _read_until(peer, lambda data: data.count(b"\x08\x03") > 0)  # CONNECTED


def _shake_hands(peer: socket.socket, port: int, path: str) -> None:
    peer.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    answer = _read_until(peer, lambda data: b"\r\n\r\n" in data)
    assert answer.startswith(b"HTTP/1.1 101"), answer


def _read_until(peer: socket.socket, enough: Callable[[bytes], bool]) -> bytes:
    data = b""
    while not enough(data):
        piece = peer.recv(4096)
        assert piece, f"the broker closed the connection after {data!r}"
        data += piece
    return data


@contextmanager
def _pouring(peer: socket.socket, data: bytes) -> Iterator[None]:
    """Keep the socket full from a thread. When the broker stops reading, the thread blocks in `send`, as intended."""
    stop = threading.Event()
    peer.settimeout(0.2)

    def pour() -> None:
        rest = memoryview(data)
        while not stop.is_set():
            try:
                rest = rest[peer.send(rest) :] or memoryview(data)
            except TimeoutError:
                continue
            except OSError:
                return  # the broker may close a connection that nobody reads
            time.sleep(0)

    with _running(pour):
        try:
            yield
        finally:
            stop.set()
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


@contextmanager
def _draining(peer: socket.socket) -> Iterator[None]:
    """Read everything that arrives and drop it, until the connection ends."""

    def drain() -> None:
        while True:
            try:
                if not peer.recv(65536):
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    with _running(drain):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


@contextmanager
def _running(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
