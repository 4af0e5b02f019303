"""`vela subscriptions`: list, show, create, delete."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out, partitions_option
from vela.cli.acts.place import place_options
from vela.cli.acts.subscription_act import Act, subscription_act
from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.parameters import NEW_SUBSCRIPTION, SUBSCRIPTION, TOPIC
from vela.cli.text.names import subscription_path, topic_path
from vela.cli.text.numerals import UNKNOWN, ago, count, length, rate, size
from vela.cli.text.output import emit, facts, print_rich, table, toned
from vela.cli.text.times import moment

__all__ = ["TYPES", "subscriptions"]

_NUMBERS = ("backlog", "oldest", "consumers", "unacked", "permits", "out", "acked")
# columns to leave out on a narrow terminal, in this order
_SPARE = ("permits", "out", "oldest", "mark-delete", "type")
TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")


@click.group(cls=OrderedGroup)
def subscriptions() -> None:
    """List, show, create and delete subscriptions."""


@subscriptions.command("list")
@click.argument("topic", type=TOPIC)
@json_option
def list_subscriptions(topic: str) -> None:
    """List the subscriptions of a topic. On a partitioned topic they have a cursor on each partition."""
    with console_api() as api:
        rows = list(api.rows(f"{topic_path(topic)}/subscriptions", "subscriptions", most=0))
    if as_json_is_asked():
        for row in rows:
            emit(row)
        return
    if not rows:
        say("there are no subscriptions")
        return
    is_partitioned = any(row["topic"] != topic for row in rows)
    columns = [
        "subscription",
        *(["partition"] if is_partitioned else []),
        "state",
        "type",
        *_NUMBERS,
        "mark-delete",
    ]
    print_rich(
        table(
            columns,
            [_cells(row, is_partitioned) for row in rows],
            right=("partition", *_NUMBERS),
            spare=_SPARE,
        )
    )


def _cells(row: dict[str, Any], is_partitioned: bool) -> list[Any]:
    return [
        row["name"],
        *([str(row["partition"])] if is_partitioned else []),
        toned(row["standing"]["state"], row["standing"]["tone"]),
        row["type"],
        count(row["backlog_messages"]),
        ago(row["oldest_unacked_ms"]),
        count(row["consumers"]),
        count(row["unacked_messages"]),
        count(row["permits"]),
        rate(row["message_rate_out"]),
        rate(row["message_rate_acked"]),
        row["mark_delete"],
    ]


@subscriptions.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@json_option
def show(topic: str, subscription: str) -> None:
    """Show one subscription: its state, its consumers, and the deliveries that wait for an acknowledgement."""
    with console_api() as api:
        found = api.get(subscription_path(topic, subscription))
    if as_json_is_asked():
        emit(found)
        return
    standing = found["standing"]
    goes = f"{standing['state']}: {standing['sentence']}"
    if standing["drain_s"] is not None:
        goes += f" About {length(standing['drain_s'])} to go."
    print_rich(
        facts(
            [
                ("subscription", f"{found['name']}, {found['type'] or UNKNOWN}"),
                ("topic", found["topic_name"]),
                ("state", toned(goes, standing["tone"])),
                ("in this state", ago(standing["since_ms"])),
                ("backlog", f"{count(found['backlog_messages'])}, {size(found['backlog_bytes'])}"),
                (
                    "oldest",
                    f"stored {moment(found['oldest_unacked_ms'])}" if found["oldest_unacked_ms"] else UNKNOWN,
                ),
                ("in flight", count(found["unacked_messages"])),
                ("to replay", f"{count(found['replay_entries'])} entries"),
                ("in", rate(found["message_rate_in"])),
                ("out", rate(found["message_rate_out"])),
                ("acked", rate(found["message_rate_acked"])),
                ("redelivered", count(found["messages_redelivered"])),
                ("mark-delete", found["mark_delete"]),
                ("read position", found["read_position"] or UNKNOWN),
                *((f"{times} times", what) for what, times in (found["problems"] or {}).items()),
            ]
        )
    )
    if found["connected"]:
        print_rich("", _consumers(found["connected"]))
    if found["pending"]:
        print_rich("", _pending(found["pending"]))


def _consumers(rows: list[dict[str, Any]]) -> Any:
    return table(
        (
            "consumer",
            "key",
            "address",
            "permits",
            "unacked",
            "delivered",
            "redelivered",
            "last delivery",
            "last ack",
            "",
        ),
        [
            (
                row["name"],
                str(row["key"]),
                row["address"],
                count(row["permits"]),
                count(row["unacked_messages"]),
                count(row["messages_out"]),
                count(row["messages_redelivered"]),
                ago(row["last_delivery_ms"]),
                ago(row["last_ack_ms"]),
                _trouble(row),
            )
            for row in rows
        ],
        right=("permits", "unacked", "delivered", "redelivered", "last delivery", "last ack"),
    )


def _trouble(row: dict[str, Any]) -> str:
    found = [
        words
        for words, is_so in (
            ("blocked", row["blocked"]),
            ("asks for none", row["permits"] <= 0),
            ("is not reading", not row["writable"]),
        )
        if is_so
    ]
    return ", ".join(found)


def _pending(rows: list[dict[str, Any]]) -> Any:
    return table(
        ("pending", "messages", "at", "delivered", "redelivered"),
        [
            (
                _range(row),
                count(row["messages"]),
                row["consumer_name"],
                ago(row["delivered_ms"]),
                count(row["redelivery_count"]),
            )
            for row in rows
        ],
        right=("messages", "redelivered"),
    )


def _range(row: dict[str, Any]) -> str:
    first, last = row["first_entry"], row["last_entry"]
    return f"{row['ledger_id']}:{first}" if first == last else f"{row['ledger_id']}:{first}–{last}"


@subscriptions.command()
@click.argument("topic", type=TOPIC)
@click.argument("name", type=NEW_SUBSCRIPTION)
@place_options(default="latest")
@click.option(
    "--type",
    "kind",
    type=click.Choice(TYPES),
    default="Shared",
    show_default=True,
    help="Type of the subscription until its first consumer connects.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property to store with the subscription. May be repeated.",
)
@partitions_option
@act_options
def create(
    topic: str,
    name: str,
    place: dict[str, Any],
    kind: str,
    properties: tuple[str, ...],
    partitions: dict[str, str],
    consent: Consent,
) -> None:
    """Create a subscription that begins at a place you choose."""
    kept = {}
    for each in properties:
        key, separator, value = each.partition("=")
        if not separator:
            raise click.UsageError(f"--property {each!r}: write it as NAME=VALUE.")
        kept[key] = value
    parameters: dict[str, Any] = {"name": name, "type": kind, **place, **partitions}
    if kept:
        parameters["properties"] = kept
    carry_out(Asked(kind="create_subscription", topic=topic, parameters=parameters), consent)


@subscriptions.command()
@click.option("--force", is_flag=True, help="Delete it even if consumers are connected, and close them.")
@subscription_act
def delete(act: Act, force: bool) -> None:
    """Delete a subscription with its cursor. You cannot undo this."""
    act("delete_subscription", {"force": force})
