"""Write topic and subscription names into addresses, and read the names back exactly.

Servers decode %2F before they route, and browsers resolve dot segments. Addresses therefore use ~2F for a slash,
~7E for a tilde, and ~2E for each dot of a name that consists only of dots.

An act is a change that the broker makes on request.
"""

from __future__ import annotations

import re

from django.urls import NoReverseMatch, register_converter, reverse

__all__ = [
    "NameConverter",
    "TopicConverter",
    "act_form_url",
    "again_url",
    "api_url",
    "choose_url",
    "compare_url",
    "cursor_act_url",
    "dead_letters_url",
    "help_url",
    "history_url",
    "is_api_path",
    "message_url",
    "messages_url",
    "namespace_url",
    "past_url",
    "policies_url",
    "short_name",
    "subscription_url",
    "topic_act_url",
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
        """Return the unescaped name. Raises ValueError for a NUL, so that Django answers 404."""
        return _storable(_unescape(value))

    def to_url(self, value: str) -> str:
        return _escape(value)


class TopicConverter:
    """A URL converter for a full topic name in four path segments."""

    regex = "(?:non-)?persistent/[^/]+/[^/]+/[^/]+"

    def to_python(self, value: str) -> str:
        domain, *parts = value.split("/")
        return _storable(f"{domain}://" + "/".join(_unescape(part) for part in parts))

    def to_url(self, value: str) -> str:
        domain, _, rest = value.partition("://")
        return "/".join([domain, *(_escape(part) for part in rest.split("/", 2))])


register_converter(TopicConverter, "topic")
register_converter(NameConverter, "name")


def topic_url(topic: str) -> str:
    """Return the address of the page for a topic or namespace."""
    if "://" not in topic:
        return namespace_url(topic)
    return reverse("console:topic", args=[topic])


def namespace_url(namespace: str) -> str:
    """Return the address of a namespace's page. For `*` and `tenant/*`, return the address of the namespace list."""
    tenant, _, name = namespace.partition("/")
    is_one = name not in ("", "*")
    return reverse("console:namespace", args=[tenant, name]) if is_one else reverse("console:namespaces")


def policies_url(name: str) -> str:
    """Return the address of the form that sets the policies of a topic or namespace."""
    if "://" in name:
        return reverse("console:topic_policies", args=[name])
    return reverse("console:namespace_policies", args=name.split("/", 1))


def subscription_url(topic: str, subscription: str) -> str:
    """Return the address of a subscription's page, or of the topic's page if `subscription` is empty."""
    if not subscription:
        return topic_url(topic)
    return reverse("console:subscription", args=[topic, subscription])


def past_url(topic: str, subscription: str = "") -> str:
    """Return the address of the page that shows the past state of a topic or subscription."""
    if not subscription:
        return reverse("console:topic_past", args=[topic])
    return reverse("console:subscription_past", args=[topic, subscription])


def messages_url(topic: str) -> str:
    """Return the address of the page that searches a topic's messages."""
    return reverse("console:messages", args=[topic])


def compare_url(topic: str) -> str:
    """Return the address of the page that compares two messages."""
    return reverse("console:messages_compare", args=[topic])


def message_url(topic: str, spot: object) -> str:
    """Return the address of a message's page.

    `spot` is ledger:entry, or ledger:entry:index for a message in a batch.
    """
    return reverse("console:message", args=[topic, str(spot)])


def again_url(topic: str, spot: object) -> str:
    """Return the address of the page that publishes a message again."""
    return reverse("console:message_again", args=[topic, str(spot)])


def api_url() -> str:
    """Return the address of `/api/v1`, including the project's URL prefix."""
    return reverse("api:openapi").removesuffix("/openapi.json")


def act_form_url(topic: str, subscription: str, kind: str) -> str:
    """Return the address of the form for an act on a subscription."""
    return reverse("console:act_form", args=[topic, subscription, kind])


def topic_act_url(topic: str, name: str) -> str:
    """Return the address of the form for an act on a topic."""
    return reverse("console:topic_act", args=[topic, name])


def dead_letters_url(topic: str) -> str:
    """Return the address of the page that lists the messages of a dead-letter topic."""
    return reverse("console:dead_letter_topic", args=[topic])


def choose_url(topic: str, kind: str) -> str:
    """Return the address of the page that asks which subscription an act is for."""
    return reverse("console:choose", args=[topic, kind])


def cursor_act_url(topic: str, subscription: str, kind: str) -> str:
    """Return the address of an act's form. Without a subscription, return the address of the page that asks for one."""
    return act_form_url(topic, subscription, kind) if subscription else choose_url(topic, kind)


def help_url(page: str) -> str:
    """Return the address of a page of the documentation, or of the index if `page` is empty."""
    return reverse("console:help", args=[page]) if page else reverse("console:help_index")


def history_url(topic: str, subscription: str = "") -> str:
    """Return the API address of the history of a topic or subscription."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local_name = rest.split("/", 2)
    names = {"domain": domain, "tenant": tenant, "namespace": namespace, "local_name": local_name}
    if not subscription:
        return reverse("api:topic_history", kwargs=names)
    return reverse("api:subscription_history", kwargs={**names, "subscription": subscription})


def is_api_path(path: str) -> bool:
    """Return whether this path belongs to the API."""
    try:
        root = api_url().removesuffix("/v1")
    except NoReverseMatch:  # The project's URLs do not include the API
        return False
    return path.startswith(f"{root}/")


def short_name(topic: str) -> str:
    """Return the local name of a topic. Return a namespace's name unchanged."""
    return topic.split("/", 4)[-1] if "://" in topic else topic


def _storable(name: str) -> str:
    if "\0" in name:
        raise ValueError("PostgreSQL cannot store a NUL in text")
    return name
