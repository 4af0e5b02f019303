"""The paths of the WebSocket API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.urls import re_path

from broker.doors.asgi import refuse
from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.websocket.binary_socket import BinarySocket
from broker.doors.websocket.consumer.consumer_socket import ConsumerSocket
from broker.doors.websocket.consumer.fragment_cache import FragmentCache
from broker.doors.websocket.consumer.multi_topic_socket import MultiTopicConsumerSocket
from broker.doors.websocket.consumer.reader_socket import ReaderSocket
from broker.doors.websocket.middleware import UNKNOWN_ENDPOINT
from broker.doors.websocket.producer.producer_socket import ProducerSocket
from broker.doors.websocket.socket import PingPongSocket

if TYPE_CHECKING:
    from django.urls import URLPattern

    from broker.clock import Clock
    from broker.doors.asgi import Application, Receive, Scope, Send
    from broker.doors.ports import BrokerPort

__all__ = ["ABSENT", "socket_routes"]

ABSENT: Final = dict.fromkeys(
    (f"ws/{each}" for each in ("producer", "consumer", "reader")),
    "topics have had no cluster in their names since Pulsar 2; use /ws/v2",
)
"""Pulsar's paths that Vela does not serve, each with the reason."""
FRAGMENT_CACHE_BYTES: Final = 8 * 1024 * 1024

_NAMESPACE: Final = r"(?P<domain>[^/]*)/(?P<tenant>[^/]*)/(?P<namespace>[^/]*)"
_TOPIC_PATH: Final = "the path is /ws/v2/{}/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}"
_CONSUMER_PATH: Final = (
    "a consumer's path is /ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}; "
    "write a / inside the topic as %2F"
)
_MULTI_TOPIC_PATH: Final = "a multi-topic consumer's path is /ws/v3/consumer/{subscription}"


def socket_routes(broker: BrokerPort, clock: Clock) -> list[URLPattern]:
    """Return the routes. The first match wins.

    The routes match the undecoded path, in which %2F is not a separator. In the paths of producers and readers, the
    topic may contain slashes, as in Pulsar.
    """
    fragments = FragmentCache(FRAGMENT_CACHE_BYTES)
    own: dict[str, Any] = {"broker": broker, "clock": clock}
    return [
        _route(rf"ws/v2/producer/{_NAMESPACE}/(?P<topic>.*)$", ProducerSocket.as_asgi(**own)),
        _route(
            rf"ws/v2/reader/{_NAMESPACE}/(?P<topic>.*)$",
            ReaderSocket.as_asgi(**own, fragments=fragments),
        ),
        _route(
            rf"ws/v2/consumer/{_NAMESPACE}/(?P<topic>[^/]*)/(?P<subscription>[^/]*)$",
            ConsumerSocket.as_asgi(**own, fragments=fragments),
        ),
        _route(
            r"ws/v3/consumer/(?P<subscription>[^/]*)$",
            MultiTopicConsumerSocket.as_asgi(**own, fragments=fragments),
        ),
        _route(r"ws/binary$", BinarySocket.as_asgi(**own)),
        _route(r"ws/(?:v2/)?pingpong$", PingPongSocket.as_asgi(**own)),
        _route(r"ws/v2/producer(?:/.*)?$", _refusing(InvalidQuery(_TOPIC_PATH.format("producer")))),
        _route(r"ws/v2/reader(?:/.*)?$", _refusing(InvalidQuery(_TOPIC_PATH.format("reader")))),
        _route(r"ws/v2/consumer(?:/.*)?$", _refusing(InvalidQuery(_CONSUMER_PATH))),
        _route(r"ws/v3/consumer(?:/.*)?$", _refusing(InvalidQuery(_MULTI_TOPIC_PATH))),
        *(
            _route(rf"{path}(?:/.*)?$", _refusing(HandshakeRefused(404, f"there is no {path}: {why}")))
            for path, why in ABSENT.items()
        ),
        _route(r"", _refusing(HandshakeRefused(404, UNKNOWN_ENDPOINT))),
    ]


def _route(pattern: str, socket: Any) -> URLPattern:
    route: URLPattern = re_path(pattern, socket)
    return route


def _refusing(refusal: HandshakeRefused) -> Application:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await refuse(scope, receive, send, refusal)

    return application
