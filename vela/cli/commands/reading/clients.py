"""`vela consumers` and `vela producers`: the connected clients of all topics, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.options import json_option
from vela.cli.text.names import short_name
from vela.cli.text.numerals import UNKNOWN, ago, count, rate, size
from vela.cli.text.output import emit, print_rich, table

__all__ = ["consumers", "producers"]

_CONSUMERS = (
    "consumer", "key", "subscription", "topic", "wrong", "permits", "unacked", "oldest", "out", "acked", "redelivered",
    "last flow", "last ack", "address", "client", "since",
)  # fmt: skip
_PRODUCERS = (
    "producer", "key", "topic", "wrong", "in", "bytes in", "messages", "last sequence", "access", "last send",
    "address", "client", "since",
)  # fmt: skip
_NUMBERS = (
    "key",
    "permits",
    "unacked",
    "out",
    "acked",
    "redelivered",
    "in",
    "bytes in",
    "messages",
    "last sequence",
)
# columns to leave out on a narrow terminal, in this order
_SPARE = (
    "since", "last sequence", "client", "last flow", "permits", "redelivered", "access", "bytes in", "messages",
    "address", "last send", "last ack", "out",
)  # fmt: skip
_WRONG = {"ack-less": "acks nothing", "not-reading": "not reading", "old": "old client"}

C = TypeVar("C", bound=Callable[..., Any])


def _filters(command: C) -> C:
    """Give a command the filters that both lists have."""
    for option in reversed(
        (
            click.option(
                "--topic",
                metavar="TEXT",
                default="",
                help="Only clients of topics with this text in their names. A name with :// means only this topic and"
                " its partitions.",
            ),
            click.option(
                "--name", metavar="TEXT", default="", help="Only clients with this text in their names."
            ),
            click.option(
                "--address",
                metavar="TEXT",
                default="",
                help="Only clients with this text in their addresses.",
            ),
            click.option(
                "--client",
                "version",
                metavar="TEXT",
                default="",
                help="Only clients with this text in their versions, such as Pulsar-CPP.",
            ),
            click.option(
                "--limit",
                type=click.IntRange(min=0),
                default=50,
                show_default=True,
                help="Number of clients to list; 0 lists all.",
            ),
        )
    ):
        command = option(command)
    return json_option(command)


@click.command()
@click.option(
    "--subscription",
    metavar="TEXT",
    default="",
    help="Only consumers of subscriptions with this text in their names.",
)
@click.option(
    "--flag",
    type=click.Choice(("blocked", "not-reading", "ack-less", "silent", "hoarding", "old")),
    help="Only consumers with this fault.",
)
@click.option(
    "--sort",
    type=click.Choice(("name", "unacked", "oldest", "since")),
    default="name",
    show_default=True,
    help="Order of the consumers. oldest leaves out those without unacknowledged messages, and readers.",
)
@_filters
def consumers(limit: int, flag: str | None, **filters: str) -> None:
    """List the connected consumers of all topics, and what is wrong with each.

    `vela disconnect TOPIC SUBSCRIPTION --key KEY` closes one of them.
    """
    _list("consumers", _CONSUMERS, _consumer_cells, limit, flag=flag or "", **filters)


@click.command()
@click.option("--flag", type=click.Choice(("refused", "old")), help="Only producers with this fault.")
@click.option(
    "--sort",
    type=click.Choice(("name", "rate", "since")),
    default="name",
    show_default=True,
    help="Order of the producers.",
)
@_filters
def producers(limit: int, flag: str | None, **filters: str) -> None:
    """List the connected producers of all topics, and what is wrong with each."""
    _list("producers", _PRODUCERS, _producer_cells, limit, flag=flag or "", **filters)


def _list(
    which: str,
    columns: Sequence[str],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
    limit: int,
    **query: str,
) -> None:
    with console_api() as api:
        rows = list(api.rows(which, which, most=limit + 1 if limit else 0, **query))
    shown = rows[:limit] if limit else rows
    if as_json_is_asked():
        for row in shown:
            emit(row)
    elif shown:
        print_rich(table(columns, [cells(row) for row in shown], right=_NUMBERS, spare=_SPARE))
    else:
        filtered = any(value for name, value in query.items() if name != "sort") or query["sort"] == "oldest"
        say(f"no {which[:-1]} matches" if filtered else f"no {which[:-1]} is connected")
    if len(rows) > len(shown):
        say(f"there are more than {limit}: --limit 0 lists all")


def _consumer_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        str(row["key"]),
        "a reader" if row["subscription_id"] is None else row["subscription_name"],
        short_name(row["topic_name"]),
        _wrong(row),
        count(row["permits"]),
        count(row["unacked_messages"]),
        ago(row["oldest_delivered_ms"]),
        rate(row["message_rate_out"]),
        rate(row["message_rate_acked"]),
        rate(row["message_rate_redelivered"]),
        ago(row["last_flow_ms"]),
        ago(row["last_ack_ms"]),
        row["address"],
        row["client_version"] or UNKNOWN,
        ago(row["connected_ms"]),
    )


def _producer_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        str(row["key"]),
        short_name(row["topic_name"]),
        row["last_error"] or _wrong(row),
        rate(row["message_rate_in"]),
        f"{size(row['byte_rate_in'])}/s",
        count(row["messages_in"]),
        UNKNOWN if row["last_sequence_id"] < 0 else count(row["last_sequence_id"]),
        row["access_mode"] + (", deduplicated" if row["deduplicated"] else ""),
        ago(row["last_send_ms"]),
        row["address"],
        row["client_version"] or UNKNOWN,
        ago(row["connected_ms"]),
    )


def _wrong(row: dict[str, Any]) -> str:
    return ", ".join(_WRONG.get(name, name) for name in row["flags"])
