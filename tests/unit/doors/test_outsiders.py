"""An outsider is refused at every door: every command, every socket, every page, and every request to the broker.

The cases come from the code itself, so a new door without a lock fails here until it has one.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, cast, get_args

import pytest

from broker.core.access.credentials import ClientCertificate
from broker.core.access.permissions import Grants, Permission
from broker.core.access.principal import Principal
from broker.core.client_identity import ClientIdentity
from broker.core.errors import AuthenticationFailed, NotAuthorized
from broker.core.schemas.schema import SchemaDefinition, SchemaType
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.core.topic_pattern import TopicPattern
from broker.doors.admin.api import API
from broker.doors.admin.application import AdminPages
from broker.doors.admin.operations import described
from broker.doors.asgi import CERTIFICATE
from broker.doors.binary.wire import events
from broker.doors.guard import GuardedBroker
from broker.doors.http.pages import HttpPages
from broker.doors.ports import AdminPort, ClientPort
from broker.doors.pull.answers import PullAnswers
from broker.doors.pull.pages import PullPages
from broker.doors.websocket.application import websocket_application
from broker.doors.websocket.routes import ABSENT, socket_routes
from broker.producers.requests import ProducerRequest, ProducerSink
from broker.pulls.values import PullAsk
from broker.storage.access import StoredAccess
from broker.subscription.requests import SubscribeRequest
from tests.support.raw_pulsar import watch_topic_list, watch_topic_list_close
from tests.support.tokens import ENVIRONMENT, token
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer
from tests.unit.doors.wire_client import WireClient
from vela.wire.binary import commands
from vela.wire.binary.enums import SubType
from vela.wire.binary.schema import Schema

TOPIC = TopicName.parse("shop/eu/orders")
OUTSIDER = Principal(role="outsider", method="token", expires_ms=None, token_id=None)
BEARER = (b"authorization", b"Bearer " + token("outsider").encode())

CERTIFICATE_OF_OUTSIDER = ClientCertificate(name="outsider", expires_ms=2**60)

TLS_FILES = {f"VELA_TLS_{each}_FILE": "x" for each in ("CERTIFICATE", "KEY", "TRUST")}
HARMLESS = {"settings", "connections", "rates", "is_ready", "forget_pull"}
REQUESTS: dict[str, tuple[Any, ...]] = {
    "partition_count": (TOPIC,),
    "service_urls": (TOPIC,),
    "topics_of_namespace": ("shop/eu",),
    "watch_topics": ("shop/eu", TopicPattern("shop/eu/.*"), lambda added, removed: None),
    "open_producer": (ProducerRequest(topic=TOPIC, name=None), None, None),
    "subscribe": (
        SubscribeRequest(topic=TOPIC, subscription="s", type=SubscriptionType.SHARED, consumer_name="c"),
        None,
        None,
    ),
    "get_schema": (TOPIC, None),
    "get_or_create_schema": (
        TOPIC,
        SchemaDefinition(type=SchemaType.STRING, data=b"", name="s", properties={}),
    ),
    "pull": (
        PullAsk(
            topic=TOPIC,
            queue=0,
            offset=0,
            max_messages=1,
            matches=None,
            may_suspend=False,
            suspend_timeout_ms=0,
        ),
    ),
    "committed_offset": (TOPIC, 0, "s"),
    "commit_offset": (TOPIC, 0, "s", 1, "peer"),
}
REQUESTS["pull_now"] = REQUESTS["pull"]


class SealedBroker(FakeBroker):
    """Fails the test if a request reaches it."""

    def __init__(self) -> None:
        super().__init__(environment=ENVIRONMENT)
        self.reached: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in REQUESTS:
            self.reached.append(name)
        return super().__getattribute__(name)


@pytest.fixture
async def broker() -> SealedBroker:
    return SealedBroker()


def requests_of_clients() -> set[str]:
    return {
        name
        for each in ClientPort.__mro__
        for name in vars(each)
        if not name.startswith("_") and each.__module__ == ClientPort.__module__
    }


def test_every_request_of_clients_has_a_case_here() -> None:
    assert requests_of_clients() == REQUESTS.keys() | HARMLESS


async def request(guard: GuardedBroker, name: str) -> None:
    named = {"create": True} if name == "partition_count" else {}
    answer = getattr(guard, name)(*REQUESTS[name], **named)
    if inspect.isawaitable(answer):
        await answer


@pytest.mark.parametrize("name", sorted(REQUESTS))
@pytest.mark.parametrize(
    ("who", "error"), [(None, AuthenticationFailed), (OUTSIDER, NotAuthorized)], ids=["nobody", "outsider"]
)
async def test_the_broker_hears_of_no_request_of_an_outsider(
    broker: SealedBroker, name: str, who: Principal | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await request(GuardedBroker(broker, who), name)
    assert broker.reached == []


async def test_a_locked_guard_refuses_even_where_the_broker_asks_nobody() -> None:
    with pytest.raises(AuthenticationFailed):
        await GuardedBroker(FakeBroker()).partition_count(TOPIC, create=True)


async def test_a_producer_that_makes_a_subscription_needs_consume_too(broker: SealedBroker) -> None:
    grants = Grants(topics={TOPIC.full: {"outsider": {Permission.PRODUCE}}})
    broker.access.take(StoredAccess(grants=grants, revoked_tokens=frozenset()))
    request = ProducerRequest(topic=TOPIC, name=None, initial_subscription="s")
    identity = ClientIdentity(address="test:1", client_version="", face="binary")
    with pytest.raises(NotAuthorized, match="subscription s"):
        await GuardedBroker(broker, OUTSIDER).open_producer(request, identity, cast(ProducerSink, None))
    assert broker.reached == []


# -- the binary protocol ---------------------------------------------------------------------------------------------

NAME = TOPIC.full
COMMANDS: dict[type[Any], bytes] = {
    events.PartitionMetadata: commands.partition_metadata(NAME, request_id=1),
    events.Lookup: commands.lookup(NAME, request_id=1),
    events.GetTopicsOfNamespace: commands.get_topics_of_namespace("shop/eu", request_id=1),
    events.WatchTopicList: watch_topic_list("shop/eu", "shop/eu/.*", watcher_id=1, request_id=1),
    events.CloseTopicWatcher: watch_topic_list_close(1, request_id=1),
    events.OpenProducer: commands.producer(NAME, producer_id=1, request_id=1),
    events.Subscribe: commands.subscribe(NAME, "s", type=SubType.SHARED, consumer_id=1, request_id=1),
    events.GetSchema: commands.get_schema(NAME, request_id=1),
    events.GetOrCreateSchema: commands.get_or_create_schema(
        NAME, request_id=1, schema=Schema(name="s", type=1, data=b"", properties={})
    ),
    events.Unsubscribe: commands.unsubscribe(1, request_id=1),
    events.Seek: commands.seek(1, request_id=1, publish_time_ms=1),
    events.GetLastMessageId: commands.get_last_message_id(1, request_id=1),
    events.ConsumerStats: commands.consumer_stats(1, request_id=1),
    events.CloseConsumer: commands.close_consumer(1, request_id=1),
    events.CloseProducer: commands.close_producer(1, request_id=1),
}
SILENT = {  # commands that have no answer, or that concern only the connection
    events.Send,
    events.Ack,
    events.Flow,
    events.Redeliver,
    events.Connect,
    events.AuthResponse,
    events.Ping,
    events.Pong,
    events.Unsupported,
}


def test_every_command_of_clients_has_a_case_here() -> None:
    assert set(get_args(events.Event)) == COMMANDS.keys() | SILENT


def connected(broker: FakeBroker, role: str) -> WireClient:
    client = WireClient(broker, connect=False)
    client.tell(
        commands.connect(
            client_version="test", protocol_version=21, auth_method="token", auth_data=token(role).encode()
        )
    )
    assert client.names() == ["CONNECTED"]
    return client


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
async def test_no_command_of_an_outsider_reaches_the_broker(broker: SealedBroker, kind: type[Any]) -> None:
    client = connected(broker, "outsider")
    client.tell(COMMANDS[kind])
    await client.settle()
    (answer,) = client.heard()
    assert broker.reached == []
    if any(name in {"topic", "namespace"} for name in kind.__dataclass_fields__):
        assert "AuthorizationError" in str(answer)


async def test_a_command_before_connect_closes_the_connection(broker: SealedBroker) -> None:
    for each in COMMANDS.values():
        client = WireClient(broker, connect=False)
        client.tell(each)
        await client.settle()
        assert client.is_closed()
    assert broker.reached == []


# -- WebSockets ------------------------------------------------------------------------------------------------------

TARGETS = {
    "ws/v2/producer": "/ws/v2/producer/persistent/shop/eu/orders",
    "ws/v2/reader": "/ws/v2/reader/persistent/shop/eu/orders",
    "ws/v2/consumer": "/ws/v2/consumer/persistent/shop/eu/orders/s",
    "ws/v3/consumer": "/ws/v3/consumer/s?topics=persistent://shop/eu/orders",
}
BY_PATTERN = "/ws/v3/consumer/s?topicsPattern=persistent://shop/eu/.*"
# CONNECT authenticates; a ping says nothing about topics.
WITHOUT_TOPICS = {
    "ws/binary",
    "ws/(?:v2/)?pingpong",
}


async def test_every_socket_has_a_case_here(broker: SealedBroker) -> None:
    routes = {str(route.pattern) for route in socket_routes(broker, broker.clock)}
    sockets = {
        re.split(r"/\(\?P<|\$|\(\?:/\.\*\)\?\$", pattern)[0]
        for pattern in routes
        if not pattern.startswith("(")
    } - {""}
    sockets -= ABSENT.keys()
    assert sockets == TARGETS.keys() | WITHOUT_TOPICS


@pytest.mark.parametrize("target", [*TARGETS.values(), BY_PATTERN])
async def test_no_socket_opens_for_an_outsider(broker: SealedBroker, target: str) -> None:
    application = websocket_application(broker)
    assert (await Peer(application, target, headers=[]).refused())[0] == 401
    assert (await Peer(application, target, headers=[BEARER]).refused())[0] == 403
    joint = "&" if "?" in target else "?"
    by_query = f"{target}{joint}token={token('outsider')}"
    assert (await Peer(application, by_query, headers=[]).refused())[0] == 403
    assert broker.reached == []


async def test_a_binary_socket_refuses_an_outsider_after_connect(broker: SealedBroker) -> None:
    peer = await Peer(websocket_application(broker), "/ws/binary", headers=[]).opened()
    await peer.tell(commands.connect(client_version="test", protocol_version=21), COMMANDS[events.Subscribe])
    assert b"asks for credentials" in b"".join(peer.raw())
    assert broker.reached == []


# -- pages and pulls -------------------------------------------------------------------------------------------------

OPEN_PAGES = ("/healthz", "/readyz")
EVERY_ROLE_MAY = {  # paths of the admin API that tell nothing about topics
    "/admin/v2/clusters",
    "/admin/v2/clusters/{cluster}",
    "/admin/v2/brokers/health",
    "/admin/v2/brokers/ready",
    "/admin/v2/brokers/version",
}
NAMES = {"domain": "persistent", "tenant": "shop", "namespace": "eu", "topic": "orders"}
LOCKED = [
    ("GET", "/metrics"),
    ("HEAD", "/metrics"),
    ("GET", "/pull/v1/shop/eu/orders?queue=0&offset=0"),
    ("GET", "/pull/v1-queues/shop/eu/orders"),
    ("GET", "/pull/v1-offset/shop/eu/orders?queue=0&subscription=s"),
    ("PUT", "/pull/v1-offset/shop/eu/orders?queue=0&subscription=s&offset=1"),
]


async def ask(
    broker: FakeBroker,
    method: str,
    target: str,
    *headers: tuple[bytes, bytes],
    certificate: ClientCertificate | None = None,
) -> tuple[int, bytes]:
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(headers),
        "client": ("test", 1),
        "extensions": {CERTIFICATE: certificate},
    }
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    application: Any = HttpPages(broker)
    if path.startswith("/pull/"):
        application = PullPages(broker, PullAnswers(broker))
    elif path.startswith(("/admin/", "/lookup/", "/topics/")):
        application = AdminPages(cast(AdminPort, broker))
    await application(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@pytest.mark.parametrize(("method", "target"), LOCKED)
async def test_no_page_and_no_pull_answers_an_outsider(
    broker: SealedBroker, method: str, target: str
) -> None:
    assert (await ask(broker, method, target))[0] == 401
    assert (await ask(broker, method, target, BEARER))[0] == 403
    assert (await ask(broker, method, target, BEARER, BEARER))[0] == 401
    assert broker.reached == []


def admin_target(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: NAMES.get(name[1], "1"), path)


@pytest.mark.parametrize(
    ("method", "path", "action"), [(each.method, each.path, each.action) for each in described(API)]
)
async def test_no_operation_of_the_admin_api_answers_an_outsider(
    broker: SealedBroker, method: str, path: str, action: str
) -> None:
    target = admin_target(path)
    status, body = await ask(broker, method, target)
    assert (status, list(json.loads(body))) == (401, ["reason"])
    assert (await ask(broker, method, target, BEARER, BEARER))[0] == 401
    if path in EVERY_ROLE_MAY:
        assert action == "nothing"
        return
    status, body = await ask(broker, method, target, BEARER)
    assert status == 403, (path, body)
    assert "the role 'outsider' may not" in json.loads(body)["reason"]
    assert broker.reached == []


async def test_the_rest_of_the_admin_api_asks_for_credentials_too(broker: SealedBroker) -> None:
    for target in ("/admin/v2/openapi.json", "/admin/v2/nothing", "/lookup/v2/x"):
        assert (await ask(broker, "GET", target))[0] == 401


@pytest.mark.parametrize(("methods", "status"), [("tls", 403), ("token,tls", 403), ("token", 401)])
async def test_a_client_certificate_says_who_its_client_is_at_every_door(methods: str, status: int) -> None:
    broker = FakeBroker(environment={**ENVIRONMENT, "VELA_AUTHENTICATION": methods, **TLS_FILES})
    for target in ("/metrics", LOCKED[2][1], "/admin/v2/tenants"):
        assert (await ask(broker, "GET", target, certificate=CERTIFICATE_OF_OUTSIDER))[0] == status
    sockets = websocket_application(broker)
    for target in TARGETS.values():
        assert (await Peer(sockets, target, headers=[], certificate=CERTIFICATE_OF_OUTSIDER).refused())[
            0
        ] == status
    answers: list[int] = []
    PullAnswers(broker).begin_for(
        None,
        "/pull/v1/shop/eu/orders",
        "queue=0&offset=0",
        lambda got, _: answers.append(got),
        address="test:1",
        certificate=CERTIFICATE_OF_OUTSIDER,
    )
    assert answers == [status]
    peer = await Peer(sockets, "/ws/binary", headers=[], certificate=CERTIFICATE_OF_OUTSIDER).opened()
    await peer.tell(commands.connect(client_version="test", protocol_version=21), COMMANDS[events.Subscribe])
    said = b"".join(peer.raw())
    assert (b"the role 'outsider' may not" in said) == (status == 403)
    assert (b"asks for credentials" in said) == (status == 401)


@pytest.mark.parametrize("target", OPEN_PAGES)
async def test_probes_need_no_credentials(broker: SealedBroker, target: str) -> None:
    assert (await ask(broker, "GET", target))[0] == 200


async def test_metrics_are_open_to_their_roles_and_on_request_to_everybody() -> None:
    for roles, header, status in (("outsider", BEARER, 200), ("others", BEARER, 403), ("*", None, 200)):
        broker = FakeBroker(environment={**ENVIRONMENT, "VELA_METRICS_ROLES": roles})
        found, body = await ask(broker, "GET", "/metrics", *([header] if header else []))
        assert found == status
        assert (b"vela_up" in body) == (status == 200)


async def test_a_pull_below_asgi_needs_the_header_too(broker: SealedBroker) -> None:
    answers: list[tuple[int, dict[str, str]]] = []
    pulls = PullAnswers(broker)
    for header in (None, BEARER[1], b"Bearer x", b"nonsense", b"Basic ?"):
        pulls.begin_for(
            header,
            "/pull/v1/shop/eu/orders",
            "queue=0&offset=0",
            lambda status, body: answers.append((status, json.loads(body))),
            address="test:1",
            certificate=None,
        )
    assert [status for status, _ in answers] == [401, 403, 401, 401, 401]
    assert broker.reached == []
