"""Topic and subscription names in addresses: readable for usual names, exact for all.

persistent://public/default/orders is /t/persistent/public/default/orders. A server decodes %2F before it routes, and
browsers resolve dot segments, so a slash or tilde inside a name and a name made of dots are written with `~` and two
hexadecimal digits.
"""

from __future__ import annotations

import re

from django.urls import register_converter, reverse

__all__ = [
    "NameConverter",
    "TopicConverter",
    "act_form_url",
    "history_url",
    "message_url",
    "messages_url",
    "short_name",
    "subscription_url",
    "topic_url",
]

_ESCAPED = re.compile(r"~([0-9A-F]{2})")


def _escape(name: str) -> str:
    escaped = name.replace("~", "~7E").replace("/", "~2F")
    return escaped.replace(".", "~2E") if set(name) == {"."} else escaped


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


class NameConverter:
    """A URL converter for a name in one path segment."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """Return the name as it is stored. Raises ValueError, which becomes a 404, for a NUL."""
        return _storable(_unescape(value))

    def to_url(self, value: str) -> str:
        """Return the name as one path segment."""
        return _escape(value)


class TopicConverter:
    """A URL converter for a full topic name in four path segments."""

    regex = "(?:non-)?persistent/[^/]+/[^/]+/[^/]+"

    def to_python(self, value: str) -> str:
        """Turn domain/tenant/namespace/local into domain://tenant/namespace/local. Raises ValueError for a NUL."""
        domain, *parts = value.split("/")
        return _storable(f"{domain}://" + "/".join(_unescape(part) for part in parts))

    def to_url(self, value: str) -> str:
        """Turn a full name into a path. Everything after the third slash is the local name."""
        domain, _, rest = value.partition("://")
        return "/".join([domain, *(_escape(part) for part in rest.split("/", 2))])


register_converter(TopicConverter, "topic")
register_converter(NameConverter, "name")


def topic_url(topic: str) -> str:
    """Return the address of a topic's page, or of the list of topics if the name is a namespace's."""
    if "://" not in topic:
        return reverse("console:topics")
    return reverse("console:topic", args=[topic])


def subscription_url(topic: str, subscription: str) -> str:
    """Return the address of a subscription's page, or of the topic's page if the subscription's name is empty."""
    if not subscription:
        return topic_url(topic)
    return reverse("console:subscription", args=[topic, subscription])


def messages_url(topic: str) -> str:
    """Return the address of the page that finds messages of a topic."""
    return reverse("console:messages", args=[topic])


def message_url(topic: str, spot: object) -> str:
    """Return the address of one message: `spot` is ledger:entry, or ledger:entry:index for a member of a batch."""
    return reverse("console:message", args=[topic, str(spot)])


def act_form_url(topic: str, subscription: str, kind: str) -> str:
    """Return the address of the form for one kind of act on a subscription."""
    return reverse("console:act_form", args=[topic, subscription, kind])


def history_url(topic: str, subscription: str = "") -> str:
    """Return the address of the API's history of a topic, or of one of its subscriptions."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local_name = rest.split("/", 2)
    names = {"domain": domain, "tenant": tenant, "namespace": namespace, "local_name": local_name}
    if not subscription:
        return reverse("api:topic_history", kwargs=names)
    return reverse("api:subscription_history", kwargs={**names, "subscription": subscription})


def short_name(topic: str) -> str:
    """Return the local part of a full topic name."""
    return topic.split("/", 4)[-1]


def _storable(name: str) -> str:
    if "\0" in name:
        raise ValueError("PostgreSQL cannot store a NUL in text")
    return name
