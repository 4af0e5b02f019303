"""Which endpoint a WebSocket request names.

Producer and reader: all that follows the namespace is the topic, as brokers of the 3.x and 4.x generations
read it. Newer ones silently drop the further segments, which would address another topic than the client
wrote.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.query import Query, form_decode

__all__ = [
    "BinaryPath",
    "ConsumerPath",
    "MultiTopicConsumerPath",
    "PingPongPath",
    "ProducerPath",
    "ReaderPath",
    "SocketPath",
    "TopicPattern",
    "parse_path",
]

DOMAINS = ("persistent", "non-persistent")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicPath:
    domain: str  # "persistent" or "non-persistent"
    tenant: str
    namespace: str
    topic: str  # local name, decoded; may hold "/"

    @property
    def full_topic(self) -> str:
        """`domain://tenant/namespace/topic`; whether it is a legal name is the broker's to say."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerPath(_TopicPath):
    """`/ws/v2/producer/{domain}/{tenant}/{namespace}/{topic}`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPath(_TopicPath):
    """`/ws/v2/reader/{domain}/{tenant}/{namespace}/{topic}`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerPath(_TopicPath):
    """`/ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}`"""

    subscription: str  # decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPattern:
    """`domain://tenant/namespace/regex`: the topics of one namespace whose local name matches."""

    domain: str
    tenant: str
    namespace: str
    regex: str  # compiles as a Python regular expression


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTopicConsumerPath:
    """`/ws/v3/consumer/{subscription}`; exactly one of `topics` and `pattern` is given."""

    subscription: str  # decoded
    topics: tuple[str, ...]  # as written, in order, without repetition; empty when `pattern` is given
    pattern: TopicPattern | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryPath:
    """`/ws/binary`: Pulsar's binary protocol in binary frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPongPath:
    """`/ws/pingpong`, `/ws/v2/pingpong`: answers pings, has no topic."""


SocketPath: TypeAlias = (
    ProducerPath | ReaderPath | ConsumerPath | MultiTopicConsumerPath | BinaryPath | PingPongPath
)

_FIXED: dict[str, SocketPath] = {
    "/ws/binary": BinaryPath(),
    "/ws/pingpong": PingPongPath(),
    "/ws/v2/pingpong": PingPongPath(),
}


def parse_path(raw_path: str | bytes, query: Query) -> SocketPath:
    """The endpoint of an undecoded request path (ASGI `raw_path`) and a decoded query.

    Raises HandshakeRefused: 404 when the path is no endpoint, 400 (InvalidQuery) when it is one but has the
    wrong number of pieces, an unknown domain, an empty or undecodable piece, or v3's parameters are wrong.
    """
    path = raw_path.decode("latin-1") if isinstance(raw_path, bytes) else raw_path
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    pieces = path.split("/")
    match pieces[:4]:
        case ["", "ws", "v2", "producer"]:
            return _producer(pieces)
        case ["", "ws", "v2", "consumer"]:
            return _consumer(pieces)
        case ["", "ws", "v2", "reader"]:
            return _reader(pieces)
        case ["", "ws", "v3", "consumer"]:
            return _multi_topic_consumer(pieces, query)
    raise HandshakeRefused(404, "No such endpoint; see /ws/v2/producer, /ws/v2/consumer, /ws/v2/reader")


def _producer(pieces: Sequence[str]) -> ProducerPath:
    domain, tenant, namespace, topic = _topic_of(pieces)
    return ProducerPath(domain=domain, tenant=tenant, namespace=namespace, topic=topic)


def _reader(pieces: Sequence[str]) -> ReaderPath:
    domain, tenant, namespace, topic = _topic_of(pieces)
    return ReaderPath(domain=domain, tenant=tenant, namespace=namespace, topic=topic)


def _consumer(pieces: Sequence[str]) -> ConsumerPath:
    if len(pieces) != 9:
        raise InvalidQuery(
            "a consumer's path is /ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}; "
            "write a / inside the topic as %2F"
        )
    domain, tenant, namespace, topic = _topic_of(pieces[:8])
    return ConsumerPath(
        domain=domain,
        tenant=tenant,
        namespace=namespace,
        topic=topic,
        subscription=_subscription(pieces[8]),
    )


def _multi_topic_consumer(pieces: Sequence[str], query: Query) -> MultiTopicConsumerPath:
    if len(pieces) != 5:
        raise InvalidQuery("a multi-topic consumer's path is /ws/v3/consumer/{subscription}")
    subscription = _subscription(pieces[4])
    topics, pattern = query.get("topics"), query.get("topicsPattern")
    if (topics is None) == (pattern is None):
        raise InvalidQuery("give exactly one of topics and topicsPattern")
    if pattern is not None:
        return MultiTopicConsumerPath(subscription=subscription, topics=(), pattern=_pattern(pattern))
    names = tuple(dict.fromkeys((topics or "").split(",")))
    if not all(name.strip() for name in names):
        raise InvalidQuery("topics is a comma separated list of full topic names, none of them empty")
    return MultiTopicConsumerPath(subscription=subscription, topics=names, pattern=None)


def _topic_of(pieces: Sequence[str]) -> tuple[str, str, str, str]:
    if len(pieces) < 8:
        raise InvalidQuery(f"the path is /ws/v2/{pieces[3]}/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}")
    domain = pieces[4]
    if domain not in DOMAINS:
        raise InvalidQuery("the domain in the path is persistent or non-persistent")
    tenant = form_decode(pieces[5], "the tenant")
    namespace = form_decode(pieces[6], "the namespace")
    topic = form_decode("/".join(piece for piece in pieces[7:] if piece), "the topic")
    for what, text in (("tenant", tenant), ("namespace", namespace), ("topic", topic)):
        if not text.strip():
            raise InvalidQuery(f"the {what} in the path is empty")
    return domain, tenant, namespace, topic


def _subscription(piece: str) -> str:
    name = form_decode(piece, "the subscription")
    if not name.strip():
        raise InvalidQuery("the subscription name is empty")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
        raise InvalidQuery("the subscription name holds a control character")
    return name


def _pattern(text: str) -> TopicPattern:
    domain, separator, rest = text.partition("://")
    tenant, _, rest = rest.partition("/")
    namespace, _, regex = rest.partition("/")
    if not separator or domain not in DOMAINS or not tenant or not namespace or not regex:
        raise InvalidQuery("topicsPattern is persistent://{tenant}/{namespace}/{regular expression}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what a client wrote; there is nobody here to read it
            re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidQuery(f"topicsPattern is not a regular expression: {error}") from None
    return TopicPattern(domain=domain, tenant=tenant, namespace=namespace, regex=regex)
