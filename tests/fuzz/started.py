"""The same generated inputs, sent to a started Vela, with two innocent clients beside them that must go on.

python -m tests.fuzz.started --inputs 20000 [--seed N] [--face NAME …]
"""

from __future__ import annotations

import argparse
import http.client
import random
import re
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, urlsplit

import pulsar
import websockets
from websockets.sync.client import ClientConnection, connect

from tests.fuzz.admin import admin_body, admin_request
from tests.fuzz.faces import client_commands, json_frame, mutated_entry, pull_address
from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import VelaProcess, started_vela
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType

__all__ = ["main", "run_started"]

NAMESPACE: Final = "fuzz/inputs"
MOST_GROWTH_BYTES: Final = 256 << 20  # inputs create topics and store messages
INPUTS_PER_CONNECTION: Final = 4
ENTRIES_PER_CONNECTION: Final = 100
MOST_SILENCE_S: Final = 0.5  # a frame whose size was changed swallows the PING after it
CLOSE_S: Final = 0.2  # a peer with unread messages does not see the answer to its close
LONGEST_FRAME_BYTES: Final = 4096  # larger ones are arrays of a thousand messages
UNANSWERED_FRAMES: Final = 32
FRAMES_PER_CONSUMER: Final = 50
_LOGS: Final = ("broker.log", "console.log", "supervisor.log")


@dataclass(slots=True)
class Innocents:
    """A producer and a consumer of Apache's, each message awaited."""

    url: str
    round_trips: int = 0
    slowest_s: float = 0.0
    error: Exception | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for the last message. Raises what failed."""
        self._ended.set()
        self._thread.join(60)
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        client = pulsar.Client(self.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            consumer = client.subscribe("innocent", "s")
            producer = client.create_producer("innocent")
            while not self._ended.is_set():
                began_s = time.perf_counter()
                producer.send(b"%d" % self.round_trips)
                message = consumer.receive(20_000)
                assert message.data() == b"%d" % self.round_trips
                consumer.acknowledge(message)
                self.round_trips += 1
                self.slowest_s = max(self.slowest_s, time.perf_counter() - began_s)
        except Exception as error:
            self.error = error
        finally:
            client.close()


Send = Callable[[VelaProcess, random.Random, int], Counter[str]]


def run_started(vela: VelaProcess, name: str, *, inputs: int, seed: int) -> str:
    """Send `inputs` inputs to one face and return what happened. Raises AssertionError with what went wrong."""
    pids, before_bytes = vela.pids(), _resident_bytes(vela)
    logs = {log: log.stat().st_size for each in _LOGS if (log := vela.data_dir / "log" / each).exists()}
    innocents = Innocents(vela.pulsar_url)
    innocents.start()
    began_s = time.perf_counter()
    try:
        answers = _SENDERS[name](vela, random.Random(f"{name} {seed}"), inputs)
    finally:
        took_s = time.perf_counter() - began_s
        innocents.stop()
    assert innocents.round_trips, "the innocent clients exchanged no message"
    assert vela.pids() == pids, f"a process ended: {pids} became {vela.pids()}"
    for log, size in logs.items():
        said = log.read_bytes()[size:].decode(errors="replace")
        assert "Traceback" not in said, f"{log.name}: {said[said.index('Traceback') - 500 :][:4000]}"
    growth_bytes = _resident_bytes(vela) - before_bytes
    assert growth_bytes < MOST_GROWTH_BYTES, f"the broker grew by {growth_bytes >> 20} MiB"
    return (
        f"{name:7} seed {seed}: {inputs:,} inputs, {inputs / took_s:,.0f}/s, {dict(answers.most_common())}; "
        f"innocent round trips {innocents.round_trips:,}, slowest {innocents.slowest_s * 1000:.0f} ms; "
        f"the broker grew by {growth_bytes >> 20} MiB"
    )


def _resident_bytes(vela: VelaProcess) -> int:
    status = Path(f"/proc/{vela.pids()['broker']}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def _topic(name: str) -> str:
    return f"persistent://{NAMESPACE}/{name}"


# -- the binary protocol


def _send_commands(vela: VelaProcess, chance: random.Random, inputs: int) -> Counter[str]:
    answers: Counter[str] = Counter()
    for _ in range(0, inputs, INPUTS_PER_CONNECTION):
        with RawPulsar(vela.pulsar_url) as peer:
            # An earlier input may just have deleted the subscription: any two answers will do.
            peer.tell(
                commands.producer(_topic("binary"), producer_id=1, request_id=1),
                commands.subscribe(_topic("binary"), "s", type=SubType.SHARED, consumer_id=1, request_id=2),
            )
            peer.hear()
            peer.hear()
            peer.tell(commands.flow(1, 10))
            _tell(peer, [client_commands(chance) for _ in range(INPUTS_PER_CONNECTION)], answers)
    return answers


def _send_entries(vela: VelaProcess, chance: random.Random, inputs: int) -> Counter[str]:
    answers: Counter[str] = Counter()
    url = (
        f"{vela.websocket_url}/ws/v2/consumer/persistent/{NAMESPACE}/entries/json?cryptoFailureAction=CONSUME"
    )
    with _drained(url):  # the broker decodes what it pushes
        for number in range(0, inputs, ENTRIES_PER_CONNECTION):
            with RawPulsar(vela.pulsar_url) as peer:
                peer.open_producer(_topic("entries"))
                frames: list[bytes] = []
                for sequence_id in range(number, number + ENTRIES_PER_CONNECTION):
                    frames += commands.send(1, sequence_id, mutated_entry(chance))
                _tell(peer, frames, answers)
    return answers


def _tell(peer: RawPulsar, frames: list[bytes], answers: Counter[str]) -> None:
    """Send, and count the answers until the broker answers a PING after it or closes."""
    peer.socket.settimeout(MOST_SILENCE_S)
    try:
        peer.tell(*frames, commands.ping())
        while (command := peer.hear()) is not None:
            kind = command.Type.Name(command.type)
            answers[kind] += 1
            if kind == "PONG":
                return
        answers["closed"] += 1
    except TimeoutError:
        answers["waiting for the rest of a frame"] += 1
    except ConnectionError:
        answers["closed"] += 1


# -- WebSocket


@contextmanager
def _drained(url: str) -> Iterator[None]:
    """Keep a JSON consumer that acks nothing and reads everything, and reconnects."""
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


def _send_json(vela: VelaProcess, chance: random.Random, inputs: int) -> Counter[str]:
    answers: Counter[str] = Counter()
    root = f"{vela.websocket_url}/ws/v2"
    producer_url = f"{root}/producer/persistent/{NAMESPACE}/json"
    consumer_url = f"{root}/consumer/persistent/{NAMESPACE}/json/s?subscriptionType=Shared"
    sent = 0
    while sent < inputs:
        for url, frames, is_answered in (
            (producer_url, UNANSWERED_FRAMES, True),
            (consumer_url, FRAMES_PER_CONSUMER, False),
        ):
            with connect(url, max_size=None, close_timeout=CLOSE_S) as socket:
                sent += _send_frames(socket, chance, frames, is_answered, answers)
    return answers


def _send_frames(
    socket: ClientConnection, chance: random.Random, frames: int, is_answered: bool, answers: Counter[str]
) -> int:
    sent = 0
    try:
        for _ in range(frames):
            frame = json_frame(chance)
            if len(frame) <= LONGEST_FRAME_BYTES:
                sent += 1
                socket.send(frame, text=True)
        for _ in range(sent if is_answered else 0):
            socket.recv(20)
            answers["answer"] += 1
    except websockets.ConnectionClosed as closed:
        answers[f"close {closed.rcvd.code if closed.rcvd else 'without a code'}"] += 1
    return sent


# -- HTTP


def _send_pulls(vela: VelaProcess, chance: random.Random, inputs: int) -> Counter[str]:
    def request() -> tuple[str, str, bytes]:
        address = pull_address(chance).replace(b"suspend", b"suspended")  # a parked pull would wait
        return "GET", "/" + quote_from_bytes(address, safe="/?&=%'()+:|").lstrip("/"), b""

    return _ask(vela, request, inputs)


def _send_bodies(vela: VelaProcess, chance: random.Random, inputs: int) -> Counter[str]:
    return _ask(vela, lambda: admin_request(admin_body(chance)), inputs)


def _ask(vela: VelaProcess, request: Callable[[], tuple[str, str, bytes]], inputs: int) -> Counter[str]:
    answers: Counter[str] = Counter()
    port = urlsplit(vela.http_url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(inputs):
        method, path, body = request()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            answers["closed"] += 1
            connection.close()
            continue
        answers[str(answer.status)] += 1
        assert answer.status not in (500, 502), f"{method} {path} {body!r}: {answer.status} {said[:500]!r}"
    connection.close()
    return answers


_SENDERS: Final[dict[str, Send]] = {
    "server": _send_commands,
    "entry": _send_entries,
    "json": _send_json,
    "pull": _send_pulls,
    "admin": _send_bodies,
}


def main() -> int:
    """Start a Vela and send to each face; 1 if something went wrong."""
    parser = argparse.ArgumentParser(description="Send generated inputs to a started Vela.")
    parser.add_argument("--inputs", type=int, default=20_000, help="inputs for each face")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    parser.add_argument("--face", action="append", choices=list(_SENDERS), help="only this face")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    failed = False
    with started_vela() as vela:
        _prepare(vela)
        for name in given.face or _SENDERS:
            try:
                print(run_started(vela, name, inputs=given.inputs, seed=seed), flush=True)
            except AssertionError as error:
                failed = True
                print(f"{name}, seed {seed}: {error}", flush=True)
    return int(failed)


def _prepare(vela: VelaProcess) -> None:
    """Create the tenant and the namespace of the inputs, apart from the innocent clients'."""
    tenant, _, _ = NAMESPACE.partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(vela.http_url).port, timeout=30)
    for path in (f"tenants/{tenant}", f"namespaces/{NAMESPACE}"):
        body = b'{"adminRoles": [], "allowedClusters": ["vela"]}' if path.startswith("tenants") else b""
        connection.request("PUT", f"/admin/v2/{path}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 204, said
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
