"""`vela peek`, `examine` and `backlog`: look into a log without consuming anything."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.options import json_option
from vela.cli.parameters import SUBSCRIPTION, TOPIC
from vela.cli.text.names import subscription_path, topic_path
from vela.cli.text.numerals import UNKNOWN, count, messages, plural, size
from vela.cli.text.output import emit, facts, lines_of, print_rich, table
from vela.cli.text.times import moment

__all__ = ["backlog", "examine", "peek"]


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@click.option(
    "-n",
    "--count",
    "limit",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    help="Number of messages to show.",
)
@json_option
def peek(topic: str, subscription: str, limit: int) -> None:
    """Show the next messages that a subscription has not acknowledged.

    This does not consume them. Payloads are shown up to 200 characters.
    """
    with console_api() as api:
        found = api.get(f"{subscription_path(topic, subscription)}/peek", limit=limit)["messages"]
    if as_json_is_asked():
        for message in found:
            emit(message)
    elif found:
        print_rich(
            table(
                ("id", "stored", "key", "size", "payload"),
                [
                    (
                        message["id"],
                        moment(message["append_ms"]),
                        UNKNOWN if message["key"] is None else message["key"],
                        size(message["size_bytes"]),
                        message["trouble"] or message["preview"],
                    )
                    for message in found
                ],
                right=("size",),
            )
        )
    else:
        say("no message waits")


@click.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "--position",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Which message to show; 1 is the first, or the last.",
)
@click.option(
    "--from",
    "origin",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Count from the first or the last message.",
)
@json_option
def examine(topic: str, position: int, origin: str) -> None:
    """Show one message of a topic by its place.

    This does not consume the message.
    """
    with console_api() as api:
        asked: dict[str, str | int] = {"position": position, "from": origin}
        message = api.get(f"{topic_path(topic)}/examine", **asked)
    if as_json_is_asked():
        emit(message)
        return
    print_rich(
        facts(
            [
                ("id", message["id"]),
                ("stored", moment(message["append_ms"])),
                ("published", f"{moment(message['publish_ms'])} by {message['producer'] or UNKNOWN}"),
                ("key", UNKNOWN if message["key"] is None else message["key"]),
                ("size", size(message["size_bytes"])),
                *_delivery(message),
                *((f"property {name}", value) for name, value in message["properties"]),
                ("payload", lines_of(message["trouble"] or message["preview"])),
            ]
        )
    )


def _delivery(message: dict[str, Any]) -> list[tuple[str, str]]:
    return [("not delivered before", moment(message["deliver_at_ms"]))] if message["deliver_at_ms"] else []


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@click.option(
    "--entries",
    type=click.IntRange(1, 10_000),
    default=10_000,
    show_default=True,
    help="Read at most this many entries.",
)
@json_option
def backlog(topic: str, subscription: str, entries: int) -> None:
    """Show what a subscription's backlog consists of.

    It counts unacknowledged messages, and stops after two minutes.
    """
    with console_api(timeout_s=150) as api:
        found = api.get(f"{subscription_path(topic, subscription)}/backlog", entries=entries)
    if as_json_is_asked():
        emit(found)
        return
    print_rich(
        facts(
            [
                ("read", f"{plural(found['entries'], 'entry').replace('entrys', 'entries')}"
                 + ("" if found["is_whole"] else f", stopped by the limit of {found['stopped_by']}: there is more")),
                ("messages", count(found["messages"])),
                ("stored", size(found["bytes"])),
                ("payloads", size(found["payload_bytes"])),
                ("properties", size(found["properties_bytes"])),
                ("oldest", moment(found["oldest_append_ms"])),
                ("newest", moment(found["newest_append_ms"])),
                ("not due yet", messages(found["delayed"])),
                ("batches", count(found["batches"])),
                ("partly acked", f"{count(found['partly_acked'])} entries"),
                ("encrypted", f"{count(found['encrypted'])} entries"),
                ("corrupt", f"{count(found['corrupt'])} entries"),
                ("too large to decode", f"{count(found['too_large'])} entries"),
                ("without a key", messages(found["without_key"])),
            ]
        )
    )  # fmt: skip
    if found["keys"]:
        print_rich(
            "",
            table(
                ("key", "messages"),
                [(row["key"], count(row["messages"])) for row in found["keys"]],
                right=("messages",),
            ),
        )
