"""Parameter types of the command line: names, checked here and completed by a shell with the console's answers."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import click

from vela.cli.completing import subscriptions_like, topics_like
from vela.cli.text.names import full_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["BOOKMARK", "CONSUMER", "NEW_SUBSCRIPTION", "PRODUCER", "SUBSCRIPTION", "TOPIC"]


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
        return topics_like(ctx, incomplete)


class _Name(click.ParamType[str]):
    """A name. The broker checks further rules."""

    def __init__(self, what: str) -> None:
        self.name = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value)
        if not name or name != name.strip():
            self.fail(
                f"{name!r} is not a valid {self.name} name: use one without spaces around it", param, ctx
            )
        if any(unicodedata.category(character) == "Cc" for character in name):
            self.fail(f"the {self.name} name {name!r} contains a control character: remove it", param, ctx)
        return name


class _Subscription(_Name):
    """The name of an existing subscription, which the shell completes."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return subscriptions_like(ctx, incomplete)


TOPIC = _Topic()
SUBSCRIPTION = _Subscription("subscription")
NEW_SUBSCRIPTION = _Name("subscription")
BOOKMARK = _Name("bookmark")
CONSUMER = _Name("consumer")
PRODUCER = _Name("producer")
