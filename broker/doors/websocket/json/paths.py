"""The names in a WebSocket's address: topic and subscription from the path, a v3 consumer's topics from the query."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping

from broker.doors.handshake_errors import InvalidQuery
from broker.doors.query import Query, form_decode
from vela.wire.topic_name import DOMAINS

__all__ = ["full_topic", "requested_topics", "subscription_name"]


def full_topic(pieces: Mapping[str, str]) -> str:
    """Return `domain://tenant/namespace/topic` from undecoded pieces of a path with these names.

    Empty segments inside the topic are left out. Whether the name is a legal one is the broker's to say. Raises
    InvalidQuery for an unknown domain, and for a piece that is empty or cannot be decoded.
    """
    domain = pieces["domain"]
    if domain not in DOMAINS:
        raise InvalidQuery("the domain in the path is persistent or non-persistent")
    tenant = form_decode(pieces["tenant"], "the tenant")
    namespace = form_decode(pieces["namespace"], "the namespace")
    topic = form_decode("/".join(filter(None, pieces["topic"].split("/"))), "the topic")
    for what, text in (("tenant", tenant), ("namespace", namespace), ("topic", topic)):
        if not text.strip():
            raise InvalidQuery(f"the {what} in the path is empty")
    return f"{domain}://{tenant}/{namespace}/{topic}"


def subscription_name(piece: str) -> str:
    """Decode a piece of the path. Raises InvalidQuery for a name that is empty or has a control character."""
    name = form_decode(piece, "the subscription")
    if not name.strip():
        raise InvalidQuery("the subscription name is empty")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
        raise InvalidQuery("the subscription name has a control character")
    return name


def requested_topics(query: Query) -> tuple[str, ...]:
    """Return the full names of `topics=a,b`, in order and without repetition.

    Raises InvalidQuery unless exactly one of `topics` and `topicsPattern` is given, and for every pattern: a correct
    one is not available yet.
    """
    topics, pattern = query.get("topics"), query.get("topicsPattern")
    if topics is None and pattern is None:
        raise InvalidQuery("neither topics nor topicsPattern is given; give topics")
    if topics is not None and pattern is not None:
        raise InvalidQuery(f"both topics={topics} and topicsPattern={pattern} are given; give topics alone")
    if pattern is not None:
        _check_pattern(pattern)
        raise InvalidQuery("topicsPattern is not available yet; name the topics in topics")
    names = tuple(dict.fromkeys((topics or "").split(",")))
    if not all(name.strip() for name in names):
        raise InvalidQuery("topics is a comma separated list of full topic names, none of them empty")
    return names


def _check_pattern(text: str) -> None:
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
