"""Convert names of topics, namespaces and subscriptions between users, Vela's storage and the paths of the API."""

from __future__ import annotations

from urllib.parse import quote

from vela.core import topic_name
from vela.errors import InvalidTopicName
from vela.wire.topic_name import DEFAULT_NAMESPACE

__all__ = [
    "full_name",
    "is_namespace",
    "namespace_path",
    "short_name",
    "subscription_path",
    "topic_path",
]


def full_name(text: str) -> str:
    """Return a topic's full name. Takes `orders`, `tenant/namespace/orders` and full names, else raises ValueError."""
    try:
        return topic_name.full_name(text)
    except InvalidTopicName as error:
        raise ValueError(str(error)) from error


def short_name(topic: str) -> str:
    """Return the shortest name that `full_name` turns back into the topic's full name."""
    domain, _, rest = topic.partition("://")
    return rest.removeprefix(f"{DEFAULT_NAMESPACE}/") if domain == "persistent" else topic


def is_namespace(text: str) -> bool:
    """Return whether a name is `tenant/namespace`. A topic's name has no slash, two slashes, or a domain in front."""
    return "://" not in text and text.count("/") == 1


def namespace_path(namespace: str) -> str:
    """Return the address of a namespace in the API."""
    return "/".join(["namespaces", *(_segment(part) for part in namespace.split("/"))])


def topic_path(topic: str) -> str:
    """Return the address of a topic in the API."""
    domain, _, rest = topic.partition("://")
    return "/".join(["topics", domain, *(_segment(part) for part in rest.split("/", 2))])


def subscription_path(topic: str, subscription: str) -> str:
    """Return the address of a subscription in the API."""
    return f"{topic_path(topic)}/subscriptions/{_segment(subscription)}"


def _segment(name: str) -> str:
    """Return a name as one segment of an address.

    The API writes a slash, a tilde, and each dot of a name that has only dots, as `~` and two hexadecimal digits.
    """
    escaped = name.replace("~", "~7E").replace("/", "~2F")
    if set(name) == {"."}:
        escaped = escaped.replace(".", "~2E")
    return quote(escaped, safe="~")
