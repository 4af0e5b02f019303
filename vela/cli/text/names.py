"""Topic and subscription names on the command line: short or full in, full inside, and completed from the console."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from vela.core import topic_name
from vela.errors import InvalidTopicName

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "BOOKMARK",
    "CONSUMER",
    "NEW_SUBSCRIPTION",
    "PRODUCER",
    "SUBSCRIPTION",
    "TOPIC",
    "full_name",
    "is_namespace",
    "namespace_path",
    "short_name",
    "subscription_path",
    "topic_path",
]

_HOME: Final = "public/default"
_SLASHES: Final = 4  # of a whole name: domain://tenant/namespace/local
_EXAMPLES: Final = "write orders, tenant/namespace/orders or persistent://tenant/namespace/orders"


def full_name(text: str) -> str:
    """`orders`, `tenant/namespace/orders` or the whole of `persistent://tenant/namespace/orders`. Raises ValueError."""
    try:
        name = topic_name.full_name(text)
    except InvalidTopicName as error:
        raise ValueError(str(error)) from error
    if name.count("/") != _SLASHES:
        raise ValueError(f"{text!r} is not a topic's name: {_EXAMPLES}")
    return name


def short_name(topic: str) -> str:
    """As short as it can be written: what `full_name` makes whole again."""
    domain, _, rest = topic.partition("://")
    return rest.removeprefix(f"{_HOME}/") if domain == "persistent" else topic


def is_namespace(text: str) -> bool:
    """Whether a name is `tenant/namespace`: a topic's has no slash, two, or a domain in front."""
    return "://" not in text and text.count("/") == 1


def namespace_path(namespace: str) -> str:
    """The address of a namespace in the API."""
    return "/".join(["namespaces", *(_segment(part) for part in namespace.split("/"))])


def topic_path(topic: str) -> str:
    """The address of a topic in the API."""
    domain, _, rest = topic.partition("://")
    return "/".join(["topics", domain, *(_segment(part) for part in rest.split("/", 2))])


def subscription_path(topic: str, subscription: str) -> str:
    """The address of a subscription in the API."""
    return f"{topic_path(topic)}/subscriptions/{_segment(subscription)}"


def _segment(name: str) -> str:
    """A name as one segment of an address: the API writes a slash and a tilde with `~` and two digits."""
    escaped = name.replace("~", "~7E").replace("/", "~2F")
    if set(name) == {"."}:
        escaped = escaped.replace(".", "~2E")
    return quote(escaped, safe="~")


class _Topic(click.ParamType[str]):
    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return full_name(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from vela.cli.completing import topics_like

        return topics_like(ctx, incomplete)


class _Name(click.ParamType[str]):
    """What the broker takes for a name; other rules of it are the broker's to say."""

    def __init__(self, what: str) -> None:
        self.name = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value)
        if not name or name != name.strip():
            self.fail(f"{name!r} is no {self.name} name: give one without blanks around it", param, ctx)
        if any(unicodedata.category(character) == "Cc" for character in name):
            self.fail(f"the {self.name} name {name!r} holds a control character: leave it out", param, ctx)
        return name


class _Subscription(_Name):
    """With completion: of those that are there."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from vela.cli.completing import subscriptions_like

        return subscriptions_like(ctx, incomplete)


TOPIC = _Topic()
SUBSCRIPTION = _Subscription("subscription")
NEW_SUBSCRIPTION = _Name("subscription")
BOOKMARK = _Name("bookmark")
CONSUMER = _Name("consumer")
PRODUCER = _Name("producer")
