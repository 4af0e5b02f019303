"""Names of topics and subscriptions in a WebSocket's URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.core.errors import InvalidTopicName, NotAllowed
from broker.core.topic_pattern import TopicPattern, split_pattern
from broker.doors.handshake_errors import InvalidQuery
from broker.doors.query import Query, form_decode
from vela.wire.topic_name import DOMAINS

__all__ = ["RequestedPattern", "full_topic", "requested_topics", "subscription_name"]


def full_topic(pieces: Mapping[str, str]) -> str:
    """Return `domain://tenant/namespace/topic` from the percent-encoded parts of the path.

    Raises InvalidQuery if the domain is unknown, or if a part is blank or cannot be decoded.
    """
    domain = pieces["domain"]
    if domain not in DOMAINS:
        raise InvalidQuery("the domain in the path must be persistent or non-persistent")
    tenant = form_decode(pieces["tenant"], "the tenant")
    namespace = form_decode(pieces["namespace"], "the namespace")
    topic = form_decode("/".join(filter(None, pieces["topic"].split("/"))), "the topic")
    for what, text in (("tenant", tenant), ("namespace", namespace), ("topic", topic)):
        if not text.strip():
            raise InvalidQuery(f"the {what} in the path is empty")
    return f"{domain}://{tenant}/{namespace}/{topic}"


def subscription_name(piece: str) -> str:
    """Return the decoded name. Raises InvalidQuery if the name is blank or malformed, or has a control character."""
    name = form_decode(piece, "the subscription")
    if not name.strip():
        raise InvalidQuery("the subscription name is empty")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
        raise InvalidQuery("the subscription name has a control character")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPattern:
    """A pattern for topics of one namespace."""

    namespace: str  # In the form `tenant/namespace`
    pattern: TopicPattern


def requested_topics(query: Query) -> tuple[str, ...] | RequestedPattern:
    """Return the names in `topics` without duplicates, or the pattern in `topicsPattern`.

    Raises InvalidQuery if neither or both are given, or if the value is invalid.
    """
    topics, pattern = query.get("topics"), query.get("topicsPattern")
    if topics is None and pattern is None:
        raise InvalidQuery("neither topics nor topicsPattern is given; give one of them")
    if topics is not None and pattern is not None:
        raise InvalidQuery(f"both topics={topics} and topicsPattern={pattern} are given; give one of them")
    if pattern is not None:
        return _requested_pattern(pattern)
    names = tuple(dict.fromkeys((topics or "").split(",")))
    if not all(name.strip() for name in names):
        raise InvalidQuery("topics is a comma separated list of full topic names, none of them empty")
    return names


def _requested_pattern(text: str) -> RequestedPattern:
    try:
        domain, namespace = split_pattern(text)
        pattern = TopicPattern(text)
    except (InvalidTopicName, NotAllowed) as error:
        raise InvalidQuery(f"topicsPattern: {error}") from None
    if domain != "persistent":
        raise InvalidQuery("topicsPattern chooses persistent topics; name non-persistent ones in topics")
    return RequestedPattern(namespace=namespace, pattern=pattern)
