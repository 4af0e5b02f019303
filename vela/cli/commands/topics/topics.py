"""`vela topics`: list and show topics, and act on whole topics."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out
from vela.cli.commands.topics.compaction import compaction
from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.parameters import TOPIC
from vela.cli.text.names import short_name, topic_path
from vela.cli.text.numerals import UNKNOWN, ago, count, plural, rate, size
from vela.cli.text.output import emit, facts, print_rich, table
from vela.cli.text.times import moment_of

__all__ = ["ORDERS", "topics"]

_MOST_PARTITIONS = 10_000  # the broker's limit, in docs/reference/acts.md
ORDERS = ("name", "worst", "backlog", "rate", "last")
STATES = ("stuck", "falling behind", "paused", "draining", "watching", "keeping up", "idle")
_COLUMNS = (
    "topic",
    "state",
    "partitions",
    "backlog",
    "largest on",
    "in",
    "acked",
    "subscriptions",
    "consumers",
    "stored",
    "last publish",
)
_NUMBERS = ("partitions", "backlog", "in", "acked", "subscriptions", "consumers", "stored")

# columns to leave out on a narrow terminal, in this order
_SPARE = ("last publish", "stored", "largest on", "subscriptions", "partitions", "consumers")


@click.group(cls=OrderedGroup)
def topics() -> None:
    """List, show, create, grow, end, empty, unload and delete topics."""


@topics.command("list")
@click.option("--search", metavar="TEXT", default="", help="Only topics with this text in their names.")
@click.option("--namespace", metavar="TENANT/NAMESPACE", default="", help="Only topics of this namespace.")
@click.option(
    "--subscription", metavar="NAME", default="", help="Only topics with a subscription of exactly this name."
)
@click.option("--with-backlog", is_flag=True, help="Only topics with a backlog.")
@click.option(
    "--state", type=click.Choice(STATES), help="Only topics whose worst subscription has this state."
)
@click.option(
    "--sort", type=click.Choice(ORDERS), default="name", show_default=True, help="Order of the topics."
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="Number of topics to list; 0 lists all.",
)
@json_option
def list_topics(
    search: str,
    namespace: str,
    subscription: str,
    with_backlog: bool,
    state: str | None,
    sort: str,
    limit: int,
) -> None:
    """List topics. A partitioned topic is one row with sums, and the worst state of its subscriptions."""
    with console_api() as api:
        rows = list(
            api.rows(
                "topics",
                "topics",
                most=limit + 1 if limit else 0,
                q=search,
                namespace=namespace,
                subscription=subscription,
                backlog="true" if with_backlog else "",
                state=state or "",
                sort=sort,
            )
        )
    shown = rows[:limit] if limit else rows
    if as_json_is_asked():
        for row in shown:
            emit(row)
    elif shown:
        print_rich(table(_COLUMNS, [topic_cells(row) for row in shown], right=_NUMBERS, spare=_SPARE))
    else:
        is_filtered = search or namespace or subscription or with_backlog or state
        say("no topic matches" if is_filtered else "there are no topics yet")
    if len(rows) > len(shown):
        say(f"there are more than {limit}: --limit 0 lists all")


def topic_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return one row of a table of topics."""
    return (
        short_name(row["name"]),
        row["state"] or UNKNOWN,
        count(row["partitions"]) if row["partitions"] else "",
        count(row["backlog_messages"]),
        row["worst_subscription"] or "",
        rate(row["message_rate_in"]),
        rate(row["message_rate_acked"]),
        count(row["subscriptions"]),
        count(row["consumers"]),
        size(row["stored_bytes"]),
        ago(row["last_append_ms"]),
    )


@topics.command()
@click.argument("topic", type=TOPIC)
@json_option
def show(topic: str) -> None:
    """Show one topic: its numbers, the policies set on it, its producers, partitions and bookmarks."""
    with console_api() as api:
        found = api.get(topic_path(topic))
    if as_json_is_asked():
        emit(found)
        return
    print_rich(
        facts(
            [
                ("topic", found["name"]),
                ("partitions", count(found["partitions"]) if found["partitions"] else "not partitioned"),
                ("created", moment_of(found["created_at"])),
                ("terminated", moment_of(found["terminated_at"]) if found["terminated_at"] else "no"),
                ("subscriptions", count(found["subscriptions"])),
                ("worst state", found["state"] or UNKNOWN),
                ("backlog", _backlog(found)),
                ("in", f"{rate(found['message_rate_in'])}, {size(found['byte_rate_in'])}/s"),
                ("acked", rate(found["message_rate_acked"])),
                ("stored", size(found["stored_bytes"])),
                ("producers", count(found["producers"])),
                ("consumers", count(found["consumers"])),
                ("last publish", ago(found["last_append_ms"])),
                ("policies", _policies(found["policies"])),
                ("of its namespace", _policies(found["namespace_policies"])),
            ]
        )
    )
    for what in ("partition_topics", "producing", "bookmarks"):
        if found[what]:
            print_rich("", _TABLES[what](found[what]))


def _backlog(found: dict[str, Any]) -> str:
    worst = f", the largest on {found['worst_subscription']}" if found["worst_subscription"] else ""
    return f"{count(found['backlog_messages'])}{worst}"


def _policies(document: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in document.items()) or "none set"


def _partitions(rows: list[dict[str, Any]]) -> Any:
    return table(
        ("partition", "state", "backlog", "in", "published", "stored", "last publish"),
        [
            (
                short_name(row["name"]),
                row["state"] or UNKNOWN,
                count(row["backlog_messages"]),
                rate(row["message_rate_in"]),
                count(row["messages_in"]),
                size(row["stored_bytes"]),
                ago(row["last_append_ms"]),
            )
            for row in rows
        ],
        right=("backlog", "in", "published", "stored"),
    )


def _producers(rows: list[dict[str, Any]]) -> Any:
    return table(
        ("producer", "address", "client", "messages", "bytes", "last send"),
        [
            (
                row["name"],
                row["address"],
                f"{row['client_version'] or UNKNOWN} ({row['face']})",
                count(row["messages_in"]),
                size(row["bytes_in"]),
                ago(row["last_send_ms"]),
            )
            for row in rows
        ],
        right=("messages", "bytes"),
    )


def bookmark_table(rows: list[dict[str, Any]]) -> Any:
    """Return a table of bookmarks."""
    return table(
        ("bookmark", "id", "kept until", "created by"),
        [
            (
                row["name"],
                row["id"],
                moment_of(row["until"]) if row["until"] else "it is deleted",
                row["who"],
            )
            for row in rows
        ],
    )


_TABLES = {"partition_topics": _partitions, "producing": _producers, "bookmarks": bookmark_table}


@topics.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "--partitions",
    type=click.IntRange(0, _MOST_PARTITIONS),
    default=0,
    show_default=True,
    help="Number of partitions; 0 means not partitioned.",
)
@act_options
def create(topic: str, partitions: int, consent: Consent) -> None:
    """Create a topic, partitioned or not, in a namespace that exists."""
    domain, _, rest = topic.partition("://")
    if domain != "persistent":
        raise click.UsageError("You need not create a non-persistent topic: connect to it.")
    namespace, _, name = rest.rpartition("/")
    parameters = {"name": name, "partitions": partitions}
    carry_out(Asked(kind="create_topic", topic=namespace, parameters=parameters), consent)


@topics.command()
@click.argument("topic", type=TOPIC)
@click.argument("partitions", type=click.IntRange(1, _MOST_PARTITIONS))
@act_options
def grow(topic: str, partitions: int, consent: Consent) -> None:
    """Add partitions to a partitioned topic, up to PARTITIONS in all."""
    carry_out(Asked(kind="update_partitions", topic=topic, parameters={"partitions": partitions}), consent)


@topics.command()
@click.argument("topic", type=TOPIC)
@act_options
def terminate(topic: str, consent: Consent) -> None:
    """End a topic: it takes no more messages. You cannot undo this.

    Consumers are notified once they have acknowledged everything.
    """
    carry_out(Asked(kind="terminate", topic=topic), consent)


@topics.command()
@click.argument("topic", type=TOPIC)
@act_options
def truncate(topic: str, consent: Consent) -> None:
    """Empty a topic. You cannot undo this.

    Every subscription skips the messages that are stored.
    """
    carry_out(Asked(kind="truncate", topic=topic), consent)


@topics.command()
@click.argument("topic", type=TOPIC)
@act_options
def unload(topic: str, consent: Consent) -> None:
    """Remove a topic from the broker's memory. Nothing is lost.

    The broker closes the topic's clients, and they reconnect.
    """
    carry_out(Asked(kind="unload", topic=topic), consent)


@topics.command()
@click.argument("topic", type=TOPIC)
@click.option("--force", is_flag=True, help="Close the topic's clients and delete its subscriptions.")
@click.option("--subscriptions", is_flag=True, help="Delete subscriptions without consumers too.")
@act_options
def delete(topic: str, force: bool, subscriptions: bool, consent: Consent) -> None:
    """Delete a topic with its messages. You cannot undo this."""
    parameters = {"force": force, "subscriptions": subscriptions}
    carry_out(Asked(kind="delete_topic", topic=topic, parameters=parameters), consent)


topics.add_command(compaction)


def topic_words(row: dict[str, Any]) -> str:
    """Return a topic's line above a table of its subscriptions."""
    parts = plural(row["partitions"], "partition") + ", " if row["partitions"] else ""
    return (
        f"{short_name(row['name'])}: {parts}in {rate(row['message_rate_in'])}, acked {rate(row['message_rate_acked'])},"
        f" {plural(row['producers'] or 0, 'producer')}, {size(row['stored_bytes'])} stored"
    )
