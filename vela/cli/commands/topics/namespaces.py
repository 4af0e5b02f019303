"""`vela namespaces`: list, create and delete namespaces."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out
from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.text.numerals import count, rate, size
from vela.cli.text.output import emit, print_rich, table
from vela.wire.errors import InvalidTopicName
from vela.wire.topic_name import parse_namespace

__all__ = ["namespaces"]

_NUMBERS = ("topics", "subscriptions", "backlog", "in", "stored")


@click.group(cls=OrderedGroup)
def namespaces() -> None:
    """List, create and delete namespaces."""


@namespaces.command("list")
@click.option("--search", metavar="TEXT", default="", help="Only namespaces with this text in their names.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="Number of namespaces to list; 0 lists all.",
)
@json_option
def list_namespaces(search: str, limit: int) -> None:
    """List namespaces, with totals over their topics."""
    with console_api() as api:
        rows = list(api.rows("namespaces", "namespaces", most=limit + 1 if limit else 0, q=search))
    shown = rows[:limit] if limit else rows
    if as_json_is_asked():
        for row in shown:
            emit(row)
    elif shown:
        print_rich(
            table(("namespace", *_NUMBERS, "protected"), [_cells(row) for row in shown], right=_NUMBERS)
        )
    else:
        say("no namespace matches" if search else "there are no namespaces yet")
    if len(rows) > len(shown):
        say(f"there are more than {limit}: --limit 0 lists all")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        count(row["topics"]),
        count(row["subscriptions"]),
        count(row["backlog_messages"]),
        rate(row["message_rate_in"]),
        size(row["stored_bytes"]),
        "yes" if row["protected"] else "",
    )


@namespaces.command()
@click.argument("namespace", metavar="TENANT/NAMESPACE")
@act_options
def create(namespace: str, consent: Consent) -> None:
    """Create a namespace, and its tenant if it does not exist."""
    carry_out(Asked(kind="create_namespace", topic=_checked(namespace)), consent)


@namespaces.command()
@click.argument("namespace", metavar="TENANT/NAMESPACE")
@act_options
def delete(namespace: str, consent: Consent) -> None:
    """Delete a namespace without topics.

    If its tenant was created with a namespace and has no other, the tenant is deleted too.
    """
    carry_out(Asked(kind="delete_namespace", topic=_checked(namespace)), consent)


def _checked(namespace: str) -> str:
    try:
        return "/".join(parse_namespace(namespace))
    except InvalidTopicName as error:
        raise click.UsageError(f"{error}.") from error
