"""Names for the shell to complete, read from the console. After an error, or after a second, there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vela.cli.errors import CliError
from vela.cli.settings import settings_of
from vela.cli.text.names import full_name, short_name, topic_path
from vela.wire.topic_name import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

__all__ = ["subscriptions_like", "topics_like"]

_TIMEOUT_S: Final = 1.0
_MOST: Final = 200


def topics_like(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return topics whose short name begins with `incomplete`, out of the first 200 that the console finds for it."""
    namespace = DEFAULT_NAMESPACE if "/" not in incomplete else ""
    local = incomplete.rpartition("/")[2]
    rows = _rows(context, "topics", "topics", q=local, namespace=namespace)
    return _items([short_name(row["name"]) for row in rows], incomplete)


def subscriptions_like(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return those of the topic's first 200 subscriptions whose names begin with `incomplete`.

    The topic is earlier on the command line.
    """
    try:
        topic = full_name(str(context.params.get("topic") or ""))
    except ValueError:
        return []
    rows = _rows(context, f"{topic_path(topic)}/stats", "subscriptions")
    return _items([row["name"] for row in rows], incomplete)


def _rows(context: click.Context, path: str, member: str, **query: str) -> list[dict[str, Any]]:
    from vela.cli.console import ConsoleApi

    # Not `settings`: while a shell completes, there is no current context.
    try:
        asked = settings_of(context.find_root())
        with ConsoleApi(asked, timeout_s=_TIMEOUT_S) as api:
            return list(api.rows(path, member, most=_MOST, **query))
    except CliError:
        return []


def _items(names: list[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
