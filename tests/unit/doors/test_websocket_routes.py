"""The stages of a WebSocket's handshake: limit, query, path, route, and the socket that serves it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.asgi import Application, Receive, Scope, Send
from broker.doors.websocket.application import websocket_application
from broker.doors.websocket.middleware import ConnectionLimit
from broker.doors.websocket.socket import BrokerSocket
from tests.unit.doors.fake_broker import FakeBroker
from tests.unit.doors.socket_peer import Peer

ORDERS = "persistent/public/default/orders"


@pytest.fixture
async def broker() -> FakeBroker:
    return FakeBroker()


async def refusal(broker: FakeBroker, target: str, **scope: Any) -> tuple[int, str]:
    return await Peer(websocket_application(broker), target, **scope).refused()


@pytest.mark.parametrize("target", ["/ws/pingpong", "/ws/v2/pingpong", "/ws/binary"])
async def test_endpoints_without_a_topic_open(broker: FakeBroker, target: str) -> None:
    await Peer(websocket_application(broker), target).opened()


@pytest.mark.parametrize(
    "target",
    [
        "/ws/v2/producer/persistent/t/n/a%2Fb",
        "/ws/v2/producer/persistent/t/n/a/b",
        "/ws/v2/consumer/persistent/t/n/a%2fb/s",
        "/ws/v2/reader/persistent/t/n/a%2Fb",
        "/ws/v3/consumer/s?topics=persistent://t/n/a%2Fb",
    ],
)
async def test_an_encoded_slash_belongs_to_the_name(broker: FakeBroker, target: str) -> None:
    _, reason = await refusal(broker, target)
    # The route matches; the rule for names refuses the name.
    assert "'persistent://t/n/a/b' is not a topic name" in reason


async def test_a_name_is_decoded_once(broker: FakeBroker) -> None:
    await Peer(websocket_application(broker), f"/ws/v2/consumer/{ORDERS}%252F/s").opened()
    assert list(broker.topic("orders%2F").subscriptions) == ["s"]


async def test_a_subscription_with_a_slash_is_one_segment(broker: FakeBroker) -> None:
    await Peer(websocket_application(broker), f"/ws/v2/consumer/{ORDERS}/a%2Fb+c").opened()
    assert list(broker.topic("orders").subscriptions) == ["a/b c"]


@pytest.mark.parametrize(
    "path",
    [
        "/ws/v2/producer",
        "/ws/v2/producer/",
        "/ws/v2/producer/persistent/t/n",
        "/ws/v2/producer/persistent/t/n/",
        "/ws/v2/producer/persistent/t/n/%E0%A4%A",
        "/ws/v2/reader/persistent/t/n",
        "/ws/v2/reader/queue/t/n/orders",
        "/ws/v2/consumer",
        "/ws/v2/consumer/persistent/t/n/topic",
        "/ws/v2/consumer/persistent/t/n/a/b/sub",
        "/ws/v2/consumer/persistent/t/n/topic/",
        "/ws/v3/consumer",
        "/ws/v3/consumer/",
        "/ws/v3/consumer/a/b",
    ],
)
async def test_a_path_of_the_wrong_shape_is_400(broker: FakeBroker, path: str) -> None:
    status, reason = await refusal(broker, f"{path}?topics=persistent://t/n/a")
    assert status == 400
    assert reason.startswith("Invalid query params: ")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "/ws",
        "/ws/v2",
        "/ws/v2/",
        "/ws/v2/producers",
        "/ws/v4/consumer/s",
        "/ws/v2/admin/a/b/c/d",
        "/ws/v2/binary",
        "/ws/binary/",
        "/ws//binary",
        "ws/binary",
        "//ws/binary",
        f"//ws/v2/producer/{ORDERS}",
        f"/x/ws/v2/producer/{ORDERS}",
        "/ws%2Fbinary",
        "/WS/binary",
    ],
)
async def test_an_unknown_path_is_404(broker: FakeBroker, path: str) -> None:
    assert (await refusal(broker, path))[0] == 404


@pytest.mark.parametrize("path", ["/nothing", "//ws", "/ws/v2/producer", f"/ws/v2/producer/{ORDERS}"])
async def test_a_query_that_cannot_be_decoded_is_400_before_its_path_is_read(
    broker: FakeBroker, path: str
) -> None:
    status, reason = await refusal(broker, f"{path}?producerName=%ff")
    assert (status, "producerName" in reason) == (400, True)


async def test_a_wrong_path_is_reported_before_a_wrong_option(broker: FakeBroker) -> None:
    _, reason = await refusal(broker, "/ws/v2/producer/queue/t/n/orders?compressionType=RAR")
    assert "domain" in reason


async def test_a_wrong_option_is_reported_before_the_broker_is_ready(broker: FakeBroker) -> None:
    broker.ready = (False, "waiting for the lock")
    assert (await refusal(broker, f"/ws/v2/producer/{ORDERS}?compressionType=RAR"))[0] == 400
    assert await refusal(broker, "/ws/pingpong") == (503, "waiting for the lock")
    assert await refusal(broker, "/ws/binary") == (503, "waiting for the lock")


async def test_a_root_path_that_a_client_names_changes_nothing(broker: FakeBroker) -> None:
    await Peer(websocket_application(broker), "/ws/binary", root_path="/elsewhere").opened()


@given(path=st.text(st.characters(max_codepoint=255)), is_below_ws=st.booleans())
async def test_any_path_is_answered(path: str, is_below_ws: bool) -> None:
    target = ("/ws/v2/consumer/" if is_below_ws else "/") + path.replace("?", "")
    assert (await refusal(FakeBroker(), target))[0] in {400, 404}


async def test_sockets_above_the_limit_are_refused_until_one_leaves(broker: FakeBroker) -> None:
    limited: Application = ConnectionLimit(websocket_application(broker), most=2, limits=broker.connections)
    first, _ = await Peer(limited, "/ws/pingpong").opened(), await Peer(limited, "/ws/binary").opened()
    status, reason = await Peer(limited, "/ws/pingpong").refused()
    assert (status, "the most that VELA_MAX_WEBSOCKETS allows" in reason) == (503, True)
    await first.leave()
    # A refused handshake does not count as a connection.
    assert (await Peer(limited, "/ws/nothing").refused())[0] == 404
    await Peer(limited, "/ws/pingpong").opened()
    assert (await Peer(limited, "/ws/pingpong").refused())[0] == 503
    assert broker.connections.times_reached == {"VELA_MAX_WEBSOCKETS": 2}


class Recorded(BrokerSocket):
    """A socket that records the arguments with which Channels calls its methods."""

    calls: list[tuple[str, object]]

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.calls.append(("receive", bytes_data if text_data is None else text_data))
        if text_data == "fail":
            raise ValueError("a fault")

    async def disconnect(self, code: int) -> None:
        self.calls.append(("disconnect", code))


def recorded(broker: FakeBroker, calls: list[tuple[str, object]]) -> Application:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        socket = Recorded(broker=broker, clock=None)  # type: ignore[arg-type]  # no socket here reads the time
        socket.calls = calls
        await socket(scope, receive, send)

    return application


async def test_a_socket_is_called_as_channels_calls_a_consumer(broker: FakeBroker) -> None:
    calls: list[tuple[str, object]] = []
    peer = await Peer(recorded(broker, calls), "/").opened()
    await peer.tell("text", b"bytes")
    await peer.leave()
    assert calls == [("receive", "text"), ("receive", b"bytes"), ("disconnect", 1000)]


async def test_a_refused_socket_is_disconnected_once(broker: FakeBroker) -> None:
    calls: list[tuple[str, object]] = []
    broker.ready = (False, "not yet")
    assert await Peer(recorded(broker, calls), "/").refused() == (503, "not yet")
    assert calls == [("disconnect", 1006)]


async def test_a_fault_closes_the_socket_with_1011(broker: FakeBroker) -> None:
    calls: list[tuple[str, object]] = []
    peer = await Peer(recorded(broker, calls), "/").opened()
    await peer.tell("fail")
    with pytest.raises(ValueError, match="a fault"):
        await asyncio.wait_for(peer.task, 5)
    assert peer.transport.closed is not None
    assert peer.transport.closed[0] == 1011
    assert calls[-1] == ("disconnect", 1006)


async def test_opening_that_takes_too_long_is_504(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: FakeBroker, topic: object, *, create: bool) -> int:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    monkeypatch.setattr(FakeBroker, "partition_count", never)
    monkeypatch.setattr("broker.doors.websocket.socket.OPEN_TIMEOUT_S", 0.01)
    status, reason = await refusal(broker, f"/ws/v2/producer/{ORDERS}")
    assert (status, reason) == (
        504,
        "Failed to create producer: the broker did not answer within 0.01 s",
    )
