"""Credentials that end while a client is connected: they expire, are revoked, or a permission is taken away."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from broker.access.access import RECHECKED_AT_ONCE
from broker.core.access.permissions import Grants, Permission
from broker.doors.websocket.application import websocket_application
from broker.storage.access import StoredAccess
from tests.support.tokens import ENVIRONMENT, FOREIGN_SECRET, token
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.wire_client import TOPIC, WireClient, settle
from vela.wire.binary import commands
from vela.wire.binary.commands.connection import frame_of
from vela.wire.pb import vela_pulsar_pb2 as pb

EVERYTHING = frozenset({Permission.PRODUCE, Permission.CONSUME})
PRODUCER = "/ws/v2/producer/persistent/public/default/orders"
CONSUMER = "/ws/v2/consumer/persistent/public/default/orders/s"


def stored(*revoked: str, **roles: frozenset[Permission]) -> StoredAccess:
    return StoredAccess(
        grants=Grants(namespaces={"public/default": roles}), revoked_tokens=frozenset(revoked)
    )


@pytest.fixture
async def broker() -> FakeBroker:
    broker = FakeBroker(environment=ENVIRONMENT)
    broker.access.take(stored(app=EVERYTHING))
    return broker


def connect(broker: FakeBroker, made: str, *, method: str = "token") -> WireClient:
    client = WireClient(broker, connect=False)
    client.tell(
        commands.connect(
            client_version="test", protocol_version=21, auth_method=method, auth_data=made.encode()
        )
    )
    return client


def expiring(broker: FakeBroker, in_ms: int, role: str = "app") -> str:
    return token(role, expires_ms=broker.clock.now_ms() + in_ms)


def pass_time(client: WireClient, ms: int) -> None:
    client.broker.clock.advance(ms)
    client.timers.advance(ms)


def answer(client: WireClient, made: str) -> None:
    client.tell(
        commands.auth_response(
            client_version="test", protocol_version=21, auth_method="token", data=made.encode()
        )
    )


@pytest.mark.parametrize(
    "credentials",
    [
        {"made": token("app", secret=FOREIGN_SECRET)},
        {"made": token("app", expires_ms=1)},
        {"made": ""},
        {"made": "app"},
        {"made": token("app"), "method": "basic"},
    ],
    ids=["foreign", "expired", "none", "nonsense", "another method"],
)
async def test_a_client_without_valid_credentials_is_refused_at_connect(
    broker: FakeBroker, credentials: Mapping[str, str]
) -> None:
    client = connect(broker, **credentials)
    (refusal,) = client.heard()
    assert refusal.type == pb.BaseCommand.ERROR
    assert refusal.error.error == pb.AuthenticationError
    assert client.is_closed()
    assert broker.refused_requests["Connect"] == 1


async def test_a_client_with_permission_publishes_and_subscribes(broker: FakeBroker) -> None:
    client = connect(broker, token("app"))
    assert client.names() == ["CONNECTED"]
    await client.open_producer()
    await client.subscribe()


async def test_the_anonymous_role_has_its_own_permissions() -> None:
    broker = FakeBroker(environment={**ENVIRONMENT, "VELA_ANONYMOUS_ROLE": "guest"})
    broker.access.take(stored(guest=frozenset({Permission.CONSUME})))
    client = WireClient(broker)
    await client.subscribe()
    client.tell(commands.producer(TOPIC, producer_id=1, request_id=7))
    await client.settle()
    (refusal,) = client.heard()
    assert refusal.error.error == pb.AuthorizationError
    assert connect(broker, token("app", secret=FOREIGN_SECRET)).is_closed()


async def test_an_expired_token_is_challenged_and_a_new_one_lets_the_client_go_on(broker: FakeBroker) -> None:
    client = connect(broker, expiring(broker, 20 * 60_000))
    client.heard()
    await client.open_producer()
    for _ in range(60):
        assert "AUTH_CHALLENGE" not in client.names()
        client.tell(commands.pong())
        pass_time(client, 20_000)
    (challenge,) = [each for each in client.heard() if each.type == pb.BaseCommand.AUTH_CHALLENGE]
    assert challenge.authChallenge.challenge.auth_method_name == "token"
    assert challenge.authChallenge.challenge.auth_data == b"PulsarAuthRefresh"
    answer(client, expiring(broker, 3_600_000))
    client.tell(commands.pong())
    pass_time(client, 31_000)
    assert not client.is_closed()


async def test_a_client_that_does_not_answer_the_challenge_is_closed(broker: FakeBroker) -> None:
    client = connect(broker, expiring(broker, 5_000))
    client.heard()
    pass_time(client, 5_000)
    assert client.names() == ["AUTH_CHALLENGE"]
    client.timers.advance(29_000)
    assert not client.is_closed()
    client.timers.advance(2_000)
    assert client.is_closed()
    assert client.names()[-1] == "ERROR"


async def test_a_client_from_which_the_broker_does_not_read_keeps_its_connection(broker: FakeBroker) -> None:
    client = connect(broker, expiring(broker, 5_000))
    pass_time(client, 5_000)
    client.connection.gate.throttled(True)
    for _ in range(100):
        client.timers.advance(1_000)
    assert not client.is_closed()
    client.connection.gate.throttled(False)
    client.timers.advance(1_000)
    assert client.is_closed()


async def test_a_client_from_which_the_broker_hardly_reads_is_closed_in_the_end(broker: FakeBroker) -> None:
    client = connect(broker, expiring(broker, 5_000))
    pass_time(client, 5_000)
    client.connection.gate.throttled(True)
    for _ in range(700):
        client.timers.advance(1_000)
    assert client.is_closed()


@pytest.mark.parametrize("made", [token("other"), token("app", expires_ms=1), "nonsense", ""])
async def test_a_bad_answer_to_the_challenge_closes_the_connection(broker: FakeBroker, made: str) -> None:
    client = connect(broker, expiring(broker, 5_000))
    pass_time(client, 5_000)
    answer(client, made)
    assert client.is_closed()
    (*_, last) = client.heard()
    assert last.error.error == pb.AuthenticationError


async def test_a_client_that_cannot_be_challenged_is_closed_when_its_token_expires(
    broker: FakeBroker,
) -> None:
    client = WireClient(broker, connect=False)
    body = pb.CommandConnect(
        client_version="old",
        protocol_version=10,
        auth_method_name="token",
        auth_data=expiring(broker, 5_000).encode(),
    )
    client.tell(frame_of(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=body)))
    pass_time(client, 4_999)
    assert not client.is_closed()
    pass_time(client, 1)
    assert client.is_closed()
    assert "AUTH_CHALLENGE" not in client.names()


async def test_a_lost_connection_leaves_no_timer_and_is_not_checked_again(broker: FakeBroker) -> None:
    client = connect(broker, expiring(broker, 5_000))
    client.heard()
    client.connection.lost()
    pass_time(client, 60_000)
    broker.access.take(stored("of-app"))
    assert client.names() == []


async def test_a_revoked_token_closes_its_connections_and_no_other(broker: FakeBroker) -> None:
    mine = connect(broker, token("app", token_id="stolen"))
    other = connect(broker, token("app", token_id="good"))
    broker.access.take(stored("stolen", app=EVERYTHING))
    assert mine.is_closed()
    assert not other.is_closed()
    assert connect(broker, token("app", token_id="stolen")).is_closed()


async def test_taking_a_permission_away_closes_the_connections_that_use_it(broker: FakeBroker) -> None:
    writer, reader, idle = (connect(broker, token("app", token_id=each)) for each in "abc")
    for each in (writer, reader, idle):
        each.heard()
    await writer.open_producer()
    await reader.subscribe()
    broker.access.take(stored(app=frozenset({Permission.CONSUME})))
    assert writer.is_closed()
    assert not reader.is_closed()
    broker.access.take(stored())
    assert reader.is_closed()
    assert not idle.is_closed()


async def test_a_producer_is_refused_if_its_permission_is_taken_away_while_it_is_being_opened(
    broker: FakeBroker,
) -> None:
    client = connect(broker, token("app"))
    client.heard()
    broker.opening.clear()
    client.tell(commands.producer(TOPIC, producer_id=1, request_id=7, name="p"))
    await client.settle()
    broker.access.take(stored())
    broker.opening.set()
    await client.settle()
    (refusal,) = client.heard()
    assert refusal.error.error == pb.AuthorizationError
    assert not broker.topic(TOPIC).producers


async def test_many_connections_are_checked_in_several_turns(broker: FakeBroker) -> None:
    """Otherwise one changed permission would delay messages until ten thousand connections are checked."""
    checks: Counter[int] = Counter()
    ends = [
        broker.access.watch(lambda number=number: checks.update([number]))  # type: ignore[misc]
        for number in range(3 * RECHECKED_AT_ONCE)
    ]
    broker.access.take(stored())
    assert checks.total() == RECHECKED_AT_ONCE
    for number, end in enumerate(ends):
        if number % 2 and not checks[number]:
            end()
    broker.access.take(stored(app=EVERYTHING))  # all connections must be checked again
    assert checks.total() == RECHECKED_AT_ONCE
    await settle()
    after_both = {number for number, count in checks.items() if count == 2}
    assert len(after_both) == RECHECKED_AT_ONCE
    assert set(checks) == after_both | set(range(0, 3 * RECHECKED_AT_ONCE, 2))


async def test_a_closed_producer_needs_no_permission_any_more(broker: FakeBroker) -> None:
    client = connect(broker, token("app"))
    client.heard()
    await client.open_producer()
    client.tell(commands.close_producer(1, request_id=9))
    await client.settle()
    broker.access.take(stored())
    assert not client.is_closed()


def closed(peer: Peer) -> tuple[int, str] | None:
    """Return the code and the reason with which the broker closed the socket, or None if it is open."""
    return peer.transport.closed


async def socket(broker: FakeBroker, target: str, made: str) -> Peer:
    header = (b"authorization", b"Bearer " + made.encode())
    return await Peer(websocket_application(broker), target, headers=[header]).opened()


@pytest.mark.parametrize("target", [PRODUCER, CONSUMER])
async def test_a_socket_is_closed_if_its_token_is_revoked_or_its_permission_taken_away(
    broker: FakeBroker, target: str
) -> None:
    first, second = [
        await socket(broker, f"{target}{each}", token("app", token_id=each)) for each in ("a", "b")
    ]
    broker.access.take(stored("a", app=EVERYTHING))
    assert closed(first) == (1008, "5: the token was revoked: get a new one")
    assert closed(second) is None
    broker.access.take(stored("a"))
    code, reason = closed(second) or (0, "")
    assert code == 1008
    assert reason.startswith("6: the role 'app' may not ")


async def test_a_consumer_of_several_topics_subscribes_to_none_if_one_is_forbidden(
    broker: FakeBroker,
) -> None:
    header = (b"authorization", b"Bearer " + token("app").encode())
    target = "/ws/v3/consumer/s?topics=persistent://public/default/mine,persistent://public/other/theirs"
    status, reason = await Peer(websocket_application(broker), target, headers=[header]).refused()
    assert status == 403
    assert "theirs" in reason
    assert not any("mine" in name for name in broker.topics)


async def test_a_socket_is_closed_when_its_token_expires(broker: FakeBroker) -> None:
    peer = await socket(broker, PRODUCER, expiring(broker, 1_000))
    assert closed(peer) is None
    broker.clock.advance(1_000)
    async with asyncio.timeout(5):
        while closed(peer) is None:  # noqa: ASYNC110 - by the loop's own timer
            await asyncio.sleep(0.001)
    assert closed(peer) == (1008, "5: the credentials have expired: connect again with new ones")


async def test_a_token_revoked_while_a_socket_is_being_opened_refuses_it(broker: FakeBroker) -> None:
    broker.opening.clear()
    header = (b"authorization", b"Bearer " + token("app", token_id="stolen").encode())
    peer = Peer(websocket_application(broker), PRODUCER, headers=[header])
    await settle()
    broker.access.take(stored("stolen", app=EVERYTHING))
    broker.opening.set()
    assert (await peer.refused())[0] == 401


@pytest.mark.parametrize("target", [PRODUCER, CONSUMER])
async def test_a_token_that_expires_while_a_socket_is_being_opened_refuses_it(
    broker: FakeBroker, target: str
) -> None:
    broker.opening.clear()
    header = (b"authorization", b"Bearer " + expiring(broker, 1_000).encode())
    peer = Peer(websocket_application(broker), target, headers=[header])
    await settle()
    broker.clock.advance(1_000)
    broker.opening.set()
    status, reason = await peer.refused()
    assert (status, "the credentials have expired" in reason) == (401, True)


async def test_a_consumer_needs_permission_for_its_letters(broker: FakeBroker) -> None:
    broker.access.take(
        StoredAccess(
            grants=Grants(topics={TOPIC: {"app": EVERYTHING}}),
            revoked_tokens=frozenset(),
        )
    )
    header = [(b"authorization", b"Bearer " + token("app").encode())]
    application = websocket_application(broker)
    await Peer(application, CONSUMER, headers=header).opened()
    status, reason = await Peer(application, f"{CONSUMER}2?maxRedeliverCount=3", headers=header).refused()
    assert status == 403
    assert "orders-s2-DLQ" in reason


async def test_a_consumer_needs_permission_for_the_subscription_of_its_dead_letters(
    broker: FakeBroker,
) -> None:
    def grant(dead_letters: frozenset[Permission]) -> None:
        topics = {TOPIC: {"app": EVERYTHING}, f"{TOPIC}-s-DLQ": {"app": dead_letters}}
        broker.access.take(StoredAccess(grants=Grants(topics=topics), revoked_tokens=frozenset()))

    header = [(b"authorization", b"Bearer " + token("app").encode())]
    application = websocket_application(broker)
    target = f"{CONSUMER}?maxRedeliverCount=3&deadLetterInitialSubscription="
    grant(frozenset({Permission.PRODUCE}))
    status, reason = await Peer(application, f"{target}look", headers=header).refused()
    assert status == 403
    assert "orders-s-DLQ, subscription look" in reason
    grant(EVERYTHING)
    status, reason = await Peer(application, f"{target}pulsar.dedup", headers=header).refused()
    assert status == 400
    assert "pulsar.dedup" in reason
    await Peer(application, f"{target}look", headers=header).opened()
