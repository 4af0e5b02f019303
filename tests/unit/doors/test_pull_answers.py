"""`PullAnswers`: each pull gets one answer, and a task is started only where the database must be asked."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.core.access.permissions import Grants, Permission
from broker.core.errors import TopicNotFound
from broker.core.parked_pulls import QueueKey
from broker.core.position import Position
from broker.doors.http.application import application
from broker.doors.http.daphne_server import DaphneServer
from broker.doors.pull import answers as pull_answers
from broker.doors.pull.answers import PullAnswers
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk, PulledMessage, PullStatus
from broker.storage.access import StoredAccess
from tests.support.tokens import ENVIRONMENT, token
from tests.unit.doors.daphne_thread import DaphneThread
from tests.unit.doors.fake_broker import FakeBroker
from vela.wire.entry import Message

PATH = "/pull/v1/public/default/t"


def answer(offset: int, status: PullStatus = PullStatus.NOT_FOUND) -> PullAnswer:
    return PullAnswer(status=status, next_begin_offset=offset, min_offset=0, max_offset=offset, partition=-1)


class PulledBroker(FakeBroker):
    """A broker that treats a pull by its offset.

    0 is answered from memory, 1 is parked, 2 needs the database, 3 fails, 4 is parked after asking the database.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(environment=environment)
        self.parked: list[ParkedPull] = []
        self.left: list[ParkedPull] = []
        self.asks: list[PullAsk] = []
        self.may_read = asyncio.Event()
        self.shared = answer(7)

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        self.asks.append(ask)
        if ask.offset == 3:
            raise RuntimeError("nobody foresaw it")
        if ask.offset == 9:
            raise TopicNotFound("there is none")
        return self.park(ask) if ask.offset == 1 else self.shared if ask.offset == 0 else None

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        await self.may_read.wait()
        return self.park(ask) if ask.offset in (1, 4) else self.shared

    def forget_pull(self, parked: ParkedPull) -> None:
        self.left.append(parked)

    def park(self, ask: PullAsk) -> ParkedPull:
        self.parked.append(
            ParkedPull(
                key=QueueKey(ask.topic.full, -1),
                offset=ask.offset,
                parked_ms=0,
                park_ms=ask.suspend_timeout_ms,
                matches=ask.matches,
                ask=ask,
                answer=asyncio.get_running_loop().create_future(),
            )
        )
        return self.parked[-1]


class Asker:
    """Sends pulls, and keeps the answers."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.broker = PulledBroker(environment)
        self.answers = PullAnswers(self.broker)
        self.got: list[tuple[int, dict[str, Any]]] = []

    def pull(self, query: str, credentials: bytes | None = None) -> Any:
        return self.answers.begin_for(
            credentials,
            PATH,
            query,
            lambda status, body: self.got.append((status, json.loads(body))),
            address="test:1",
            certificate=None,
        )


async def turns(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0)


async def test_messages_in_memory_are_answered_before_begin_returns() -> None:
    asker = Asker()
    assert asker.pull("offset=0") is None
    assert [status for status, _ in asker.got] == [200]
    assert asker.got[0][1]["next_begin_offset"] == 7


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 400, "offset"),
        ("offset=1&tags=A||", 400, "tags"),
        ("offset=9", 404, "none"),
        ("offset=3", 500, "internal"),
    ],
)
async def test_a_failure_is_an_answer(query: str, status: int, said: str) -> None:
    asker = Asker()
    assert asker.pull(query) is None
    assert asker.got[0][0] == status
    assert said in asker.got[0][1]["reason"]


async def test_nothing_is_asked_of_a_broker_that_is_not_ready() -> None:
    asker = Asker()
    asker.broker.ready = (False, "no lock")
    assert asker.pull("offset=1") is None
    assert asker.got == [(503, {"reason": "no lock"})]
    assert asker.broker.asks == []


@pytest.mark.parametrize(("end", "status"), [("expire", 401), ("revoke", 401), ("forbid", 403)])
async def test_a_parked_pull_whose_credentials_end_gets_no_message(end: str, status: int) -> None:
    asker = Asker(ENVIRONMENT)
    roles = {"app": frozenset({Permission.CONSUME})}
    asker.broker.access.take(StoredAccess(grants=grants(**roles), revoked_tokens=frozenset()))
    bearer = token("app", token_id="1", expires_ms=asker.broker.clock.now_ms() + 1000)
    assert asker.pull("offset=1", f"Bearer {bearer}".encode()) is not None
    match end:
        case "expire":
            asker.broker.clock.advance(1001)
            asker.broker.parked[0].answer.set_result(answer(2))
            await turns(lambda: bool(asker.got))
        case "revoke":
            asker.broker.access.take(StoredAccess(grants=grants(**roles), revoked_tokens=frozenset("1")))
        case _:
            asker.broker.access.take(StoredAccess(grants=grants(), revoked_tokens=frozenset()))
    assert [said for said, _ in asker.got] == [status]
    assert asker.broker.left == asker.broker.parked
    assert asker.answers.parked == set()


def grants(**roles: frozenset[Permission]) -> Grants:
    return Grants(namespaces={"public/default": roles})


async def test_a_parked_pull_costs_no_task_and_is_answered_once() -> None:
    asker = Asker()
    before = asyncio.all_tasks()
    asker.pull("offset=1&suspend=true")
    assert asyncio.all_tasks() == before
    asker.broker.parked[0].answer.set_result(answer(2))
    await turns(lambda: bool(asker.got))
    assert [body["next_begin_offset"] for _, body in asker.got] == [2]


async def test_the_same_question_is_read_once_and_its_filter_is_one_object() -> None:
    """Pulls that have the same filter object and are woken together can share an answer."""
    asker = Asker()
    for _ in range(3):
        asker.pull("offset=1&tags=A&filter=a%20%3E%203")
    asker.pull("offset=1&tags=B")
    asks = asker.broker.asks
    assert asks[0] is asks[1] is asks[2]
    assert asks[0].matches is not None
    assert asks[0].matches({"TAGS": "A", "a": "4"})
    assert not asks[0].matches({"TAGS": "B", "a": "4"})
    assert asks[3].matches is not asks[0].matches


async def test_one_answer_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[PullAnswer] = []
    original = pull_answers._encode

    def counted(answer: PullAnswer) -> bytes:
        encoded.append(answer)
        return original(answer)

    monkeypatch.setattr(pull_answers, "_encode", counted)
    asker = Asker()
    for _ in range(10):
        asker.pull("offset=1")
    for parked in asker.broker.parked:
        parked.answer.set_result(asker.broker.shared)
    await turns(lambda: len(asker.got) == 10)
    assert encoded == [asker.broker.shared]
    assert asker.broker.shared == answer(7)
    asker.pull("offset=0")
    asker.broker.shared = answer(8)
    asker.pull("offset=0")
    assert [body["next_begin_offset"] for _, body in asker.got[-2:]] == [7, 8]


@pytest.mark.parametrize("offset", [2, 4])
async def test_a_pull_that_needs_the_database_waits_for_it(offset: int) -> None:
    asker = Asker()
    asker.pull(f"offset={offset}")
    assert asker.got == []
    asker.broker.may_read.set()
    await turns(lambda: bool(asker.got or asker.broker.parked))
    for parked in asker.broker.parked:
        parked.answer.set_result(asker.broker.shared)
    await turns(lambda: bool(asker.got))
    assert asker.got[0][1]["next_begin_offset"] == 7


@pytest.mark.row("S3.14")
@pytest.mark.parametrize("offset", [1, 2, 4])
async def test_a_client_that_left_gets_no_answer(offset: int) -> None:
    asker = Asker()
    pull = asker.pull(f"offset={offset}")
    if offset == 4:
        asker.broker.may_read.set()
        await turns(lambda: bool(asker.broker.parked))
    pull.leave()
    pull.leave()
    asker.broker.may_read.set()
    for parked in asker.broker.parked:
        parked.answer.set_result(asker.broker.shared)
    await asyncio.sleep(0)
    await turns(lambda: not asker.answers.reading)
    assert asker.got == []
    assert set(asker.broker.left) == set(asker.broker.parked)


async def test_a_stop_waits_for_the_database_and_then_no_longer() -> None:
    asker = Asker()
    asker.pull("offset=2")
    asyncio.get_running_loop().call_soon(asker.broker.may_read.set)
    await asker.answers.stop(5)
    assert len(asker.got) == 1
    asker.broker.may_read.clear()
    asker.pull("offset=2")
    await asker.answers.stop(0.01)
    assert not asker.answers.reading
    assert len(asker.got) == 1


async def start() -> tuple[PulledBroker, DaphneServer]:
    """Start the server. Call this in the reactor's thread."""
    broker = PulledBroker()
    broker.may_read.set()
    pulls = PullAnswers(broker)
    server = DaphneServer(
        application(broker, pulls), pulls, settings=broker.settings, limits=broker.connections
    )
    server.listen("127.0.0.1", 0)
    return broker, server


async def test_no_more_answers_are_made_for_a_peer_that_does_not_read_them(daphne: DaphneThread) -> None:
    """The server makes only as many answers as the kernel takes, and one more. The rest follows when the peer reads."""
    broker, server = await asyncio.to_thread(daphne.call, start)
    message = Message(bytes(100_000), {}, None, 0, 1, -1, 0, 0, "p", None)
    broker.shared = dataclasses.replace(
        answer(7, PullStatus.FOUND), messages=(PulledMessage(0, Position(1, 2), message),)
    )

    async def turn() -> None:
        await asyncio.sleep(0.2)

    def converse() -> int:
        """Send 500 pulls, and return how many were answered before the peer read anything."""
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
            peer.sendall(b"GET %s?offset=0 HTTP/1.1\r\nHost: localhost\r\n\r\n" % PATH.encode() * 500)
            made = -1
            while made != (made := len(broker.asks)):
                daphne.call(turn)
            with peer.makefile("rb") as answers:
                for _ in range(500):
                    head = b"".join(iter(answers.readline, b"\r\n"))
                    assert head.startswith(b"HTTP/1.1 200 OK")
                    size = int(head.partition(b"Content-Length: ")[2].split()[0])
                    assert len(answers.read(size)) == size
            return made

    try:
        assert await asyncio.to_thread(converse) < 200
    finally:
        await asyncio.to_thread(daphne.call, server.stop)
    assert len(broker.asks) == 500


async def test_below_asgi_and_through_it_the_answers_are_the_same(daphne: DaphneThread) -> None:
    broker, server = await asyncio.to_thread(daphne.call, start)

    async def wake() -> None:
        async with asyncio.timeout(5):
            while not broker.parked:  # noqa: ASYNC110 - a peer in another thread is waited for
                await asyncio.sleep(0.001)
        broker.parked.pop().answer.set_result(broker.shared)

    def exchange(query: str, *fields: str) -> tuple[str, set[str], str]:
        """Send one pull, and return the status line, the header fields and the body of the answer."""
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
            lines = "".join(f"{each}\r\n" for each in ("Host: localhost", *fields))
            peer.sendall(f"GET {PATH}?{query} HTTP/1.1\r\n{lines}\r\n".encode())
            if query in ("offset=1", "offset=4"):
                daphne.call(wake)
            data = b""
            while b"}" not in data:
                data += peer.recv(65536)
        head, _, body = data.decode().partition("\r\n\r\n")
        status, *found = head.split("\r\n")
        return status, {each for each in found if each != "Connection: close"}, body

    try:
        for query in ("offset=0", "offset=1", "offset=2", "offset=4", "offset=9", "", "offset=3"):
            direct = await asyncio.to_thread(exchange, query, "Connection: keep-alive")
            through = await asyncio.to_thread(exchange, query, "Connection: close")
            assert direct == through
    finally:
        await asyncio.to_thread(daphne.call, server.stop)
