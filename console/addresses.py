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
    """One name in one path segment."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """The name as it is stored. ValueError, which is a 404, for what no name can hold."""
        return _storable(_unescape(value))

    def to_url(self, value: str) -> str:
        """The name as one path segment."""
        return _escape(value)


class TopicConverter:
    """A full topic name in four path segments."""

    regex = "(?:non-)?persistent/[^/]+/[^/]+/[^/]+"

    def to_python(self, value: str) -> str:
        """domain/tenant/namespace/local to domain://tenant/namespace/local."""
        domain, *parts = value.split("/")
        return _storable(f"{domain}://" + "/".join(_unescape(part) for part in parts))

    def to_url(self, value: str) -> str:
        """The inverse. A local name keeps what comes after the third slash."""
        domain, _, rest = value.partition("://")
        return "/".join([domain, *(_escape(part) for part in rest.split("/", 2))])


register_converter(TopicConverter, "topic")
register_converter(NameConverter, "name")


def topic_url(topic: str) -> str:
    """The page of a topic, given its full name; of a namespace, the list of topics."""
    if "://" not in topic:
        return reverse("console:topics")
    return reverse("console:topic", args=[topic])


def subscription_url(topic: str, subscription: str) -> str:
    """The page of a subscription; without a name, of what an act was about instead."""
    if not subscription:
        return topic_url(topic)
    return reverse("console:subscription", args=[topic, subscription])


def act_form_url(topic: str, subscription: str, kind: str) -> str:
    """The form that describes an act on a subscription."""
    return reverse("console:act_form", args=[topic, subscription, kind])


def short_name(topic: str) -> str:
    """The local part of a full topic name."""
    return topic.split("/", 4)[-1]


def _storable(name: str) -> str:
    if "\0" in name:
        raise ValueError("PostgreSQL's text holds no NUL")
    return name
