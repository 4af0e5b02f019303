"""Send the inputs of each face to a started Vela, over many connections at once.

A connection that the broker closes is opened again. Only inputs that the broker has read count: a PING or another
request with a known answer follows each input or group of inputs, and its answer shows that the broker has read them.
Inputs after the one that ended a connection do not count.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from http import HTTPStatus
from random import Random
from typing import Final, TypeAlias
from urllib.parse import quote_from_bytes, urlsplit

import websockets
from websockets.sync.client import connect

from tests.fuzz.admin import admin_body, admin_request
from tests.fuzz.faces import client_commands, json_frame, mutated_entry, pull_address
from tests.fuzz.furnished import NAMESPACE
from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["SENDERS", "Send", "send_many"]

CONNECTIONS: Final = 16
COMMANDS_AT_ONCE: Final = 32
ENTRIES_AT_ONCE: Final = 100
MOST_SILENCE_S: Final = 0.5  # a frame whose size was changed swallows the PINGs after it
CLOSE_S: Final = 0.2  # a client that leaves messages unread does not see the answer to its close frame
LONGEST_FRAME_BYTES: Final = 4096  # larger frames are arrays of a thousand messages
_PING: Final = commands.ping()
_SESSIONS: Final = (  # path; a frame that is always answered; a part of the answer
    (
        f"producer/persistent/{NAMESPACE}/json",
        '{"payload": "aGk=", "context": "the answer of this"}',
        "the answer of this",
    ),
    (
        f"consumer/persistent/{NAMESPACE}/json/s?subscriptionType=Shared",
        '{"type": "isEndOfTopic"}',
        "endOfTopic",
    ),
)

Send: TypeAlias = Callable[[VelaProcess, Random, int, "Counter[str]"], int]
"""Opens a connection, sends at most this many inputs, counts the answers, and returns how many the broker has read."""


def _topic(name: str) -> str:
    return f"persistent://{NAMESPACE}/{name}"


# -- the binary protocol


def _send_commands(vela: VelaProcess, chance: Random, most: int, answers: Counter[str]) -> int:
    taken = 0
    with RawPulsar(vela.pulsar_url) as peer:
        # An earlier input may just have deleted the subscription, so these two answers may be errors.
        peer.tell(
            commands.producer(_topic("binary"), producer_id=1, request_id=1),
            commands.subscribe(_topic("binary"), "s", type=SubType.SHARED, consumer_id=1, request_id=2),
        )
        peer.hear()
        peer.hear()
        peer.tell(commands.flow(1, 10))
        is_open = True
        while is_open and taken < most:
            inputs = min(COMMANDS_AT_ONCE, most - taken)
            frames = [frame for _ in range(inputs) for frame in (client_commands(chance), _PING)]
            pongs, is_open = _tell(peer, frames, inputs, answers)
            taken += pongs if is_open else min(inputs, pongs + 1)
    return taken


def _send_entries(vela: VelaProcess, chance: Random, most: int, answers: Counter[str]) -> int:
    taken = 0
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer(_topic("entries"))
        is_open = True
        while is_open and taken < most:
            frames: list[bytes] = []
            inputs = min(ENTRIES_AT_ONCE, most - taken)
            for sequence_id in range(taken, taken + inputs):
                frames += commands.send(1, sequence_id, mutated_entry(chance))
            pongs, is_open = _tell(peer, [*frames, _PING], 1, answers)
            taken += inputs * pongs
    return taken


def _tell(peer: RawPulsar, frames: list[bytes], pings: int, answers: Counter[str]) -> tuple[int, bool]:
    """Send frames, and count answers until each PING has one. Return how many PINGs have one, and whether all do."""
    pongs = 0
    peer.socket.settimeout(MOST_SILENCE_S)
    try:
        peer.tell(*frames)
        while pongs < pings and (command := peer.hear()) is not None:
            kind = command.Type.Name(command.type)
            answers[kind] += 1
            pongs += kind == "PONG"
        answers["closed"] += pongs < pings
    except TimeoutError:
        answers["waiting for the rest of a frame"] += 1
    except ConnectionError:
        answers["closed"] += 1
    return pongs, pongs == pings


# -- WebSocket


@contextmanager
def _drained(vela: VelaProcess) -> Iterator[None]:
    """Keep a JSON consumer connected, so that the broker decodes entries. It reads everything and acks nothing."""
    url = (
        f"{vela.websocket_url}/ws/v2/consumer/persistent/{NAMESPACE}/entries/json?cryptoFailureAction=CONSUME"
    )
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            with (
                suppress(websockets.WebSocketException, OSError),
                connect(url, max_size=None, close_timeout=CLOSE_S) as socket,
            ):
                while not ended.is_set():
                    with suppress(TimeoutError):
                        socket.recv(0.2)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join(30)


def _send_json(vela: VelaProcess, chance: Random, most: int, answers: Counter[str]) -> int:
    address, question, sign = _SESSIONS[chance.getrandbits(1)]
    taken = 0
    try:
        with connect(f"{vela.websocket_url}/ws/v2/{address}", max_size=None, close_timeout=CLOSE_S) as socket:
            while taken < most:
                frame = json_frame(chance)
                if len(frame) > LONGEST_FRAME_BYTES:
                    continue
                taken += 1
                socket.send(frame, text=True)
                socket.send(question)
                while sign not in socket.recv(20, decode=True):
                    pass
                answers["answer"] += 1
    except websockets.InvalidStatus as refused:  # "subscribe again": another input has just unsubscribed
        if refused.response.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        answers["503"] += 1
    except websockets.ConnectionClosed as closed:
        answers[f"close {closed.rcvd.code if closed.rcvd else 'without a code'}"] += 1
    return taken


# -- HTTP


def _send_pulls(vela: VelaProcess, chance: Random, most: int, answers: Counter[str]) -> int:
    def request() -> tuple[str, str, bytes]:
        # Rename the parameters that ask the broker to wait, so that no pull is parked.
        address = pull_address(chance).replace(b"suspend", b"suspended")
        return "GET", "/" + quote_from_bytes(address, safe="/?&=%'()+:|").lstrip("/"), b""

    return _ask(vela, request, most, answers)


def _send_bodies(vela: VelaProcess, chance: Random, most: int, answers: Counter[str]) -> int:
    return _ask(vela, lambda: admin_request(admin_body(chance)), most, answers)


def _ask(
    vela: VelaProcess, request: Callable[[], tuple[str, str, bytes]], most: int, answers: Counter[str]
) -> int:
    taken = 0
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(vela.http_url).port, timeout=30)
    try:
        while taken < most:
            method, path, body = request()
            taken += 1
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            answers[str(answer.status)] += 1
            assert answer.status not in (500, 502), (
                f"{method} {path} {body!r}: {answer.status} {said[:500]!r}"
            )
    except (http.client.RemoteDisconnected, ConnectionError):
        answers["closed"] += 1
    finally:
        connection.close()
    return taken


# -- many at once


def send_many(name: str, vela: VelaProcess, *, inputs: int, seed: str) -> Counter[str]:
    """Send at least `inputs` to a face over many connections and return the answers. Raises AssertionError."""
    send = SENDERS[name]

    def share(number: int) -> Counter[str]:
        chance, answers, left = Random(f"{name} {seed} {number}"), Counter[str](), -(-inputs // CONNECTIONS)
        while left > 0:
            left -= send(vela, chance, left, answers)
        return answers

    drained = _drained(vela) if name == "entry" else nullcontext()
    with drained, ThreadPoolExecutor(CONNECTIONS) as pool:
        return sum(pool.map(share, range(CONNECTIONS)), Counter[str]())


SENDERS: Final[dict[str, Send]] = {
    "server": _send_commands,
    "entry": _send_entries,
    "json": _send_json,
    "pull": _send_pulls,
    "admin": _send_bodies,
}
