"""Acts that move a cursor: reset, shift, skip, clear, expire. All of them can be undone."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.place import place_options
from vela.cli.acts.subscription_act import Act, subscription_act
from vela.cli.start import MESSAGE_ID
from vela.cli.text.times import LENGTH, MOMENT

__all__ = ["clear", "expire", "reset", "shift", "skip"]


@click.command()
@place_options()
@subscription_act
def reset(act: Act, place: dict[str, Any]) -> None:
    """Put a cursor at an exact place, forward or back.

    The subscription's consumers are closed. They reconnect and continue at the new place.
    """
    act("reset", place)


@click.command()
@click.option("--back", type=click.IntRange(min=1), metavar="N", help="Number of messages to go back.")
@click.option("--forward", type=click.IntRange(min=1), metavar="N", help="Number of messages to go forward.")
@subscription_act
def shift(act: Act, back: int | None, forward: int | None) -> None:
    """Move a cursor by a number of messages, forward or back.

    It counts messages of the log from the mark-delete position, acknowledged or not. If the log has fewer, the
    cursor goes to the end, or to the first message kept, and the plan says so. Consumers are closed, and reconnect.
    """
    if (back is None) is (forward is None):
        raise click.UsageError("Say how far, with --back or --forward.")
    act("reset", {"to": "shift", "messages": -back if back is not None else forward})


@click.command()
@click.option(
    "--messages", type=click.IntRange(min=1), metavar="N", help="Number of unacknowledged messages to skip."
)
@click.option(
    "--id", type=MESSAGE_ID, metavar="LEDGER:ENTRY[:INDEX]", help="Skip this message, wherever it is."
)
@subscription_act
def skip(act: Act, messages: int | None, id: str | None) -> None:  # noqa: A002 - the option's name
    """Skip the next messages, or one message by its id.

    Skipped messages count as acknowledged and are not delivered. Consumers stay connected.
    """
    if (messages is None) is (id is None):
        raise click.UsageError("Say which messages, with --messages or --id.")
    if id is not None:
        act("skip_one", {"id": id})
    else:
        act("skip", {"messages": messages})


@click.command()
@subscription_act
def clear(act: Act) -> None:
    """Skip the whole backlog.

    Skipped messages count as acknowledged and are not delivered. Consumers stay connected.
    """
    act("clear", {})


@click.command()
@click.option("--older", type=LENGTH, metavar="LENGTH", help="Messages older than this: 90s, 15m, 2h, 7d.")
@click.option("--before", type=MOMENT, metavar="TIME", help="Messages stored before this time.")
@click.option("--id", type=MESSAGE_ID, metavar="LEDGER:ENTRY[:INDEX]", help="This message and all before it.")
@subscription_act
def expire(act: Act, older: int | None, before: int | None, id: str | None) -> None:  # noqa: A002 - as above
    """Skip messages older than a time, or up to a message.

    This includes messages that are delivered and not acknowledged yet. Consumers stay connected.
    """
    given = {
        name: parameters
        for name, parameters in (
            ("older", None if older is None else {"to": "older", "older_ms": older}),
            ("before", None if before is None else {"to": "time", "time_ms": before}),
            ("id", None if id is None else {"to": "id", "id": id}),
        )
        if parameters is not None
    }
    if len(given) != 1:
        raise click.UsageError("Say which messages, with exactly one of --older, --before and --id.")
    act("expire", next(iter(given.values())))
