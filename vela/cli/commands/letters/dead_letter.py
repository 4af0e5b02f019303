"""`vela dead-letter`: send one message to the dead letters."""

from __future__ import annotations

import click

from vela.cli.acts.subscription_act import Act, subscription_act
from vela.cli.parameters import TOPIC
from vela.cli.start import MESSAGE_ID

__all__ = ["dead_letter"]


@click.command("dead-letter")
@click.option(
    "--id",
    type=MESSAGE_ID,
    metavar="LEDGER:ENTRY[:INDEX]",
    required=True,
    help="The message, or a whole batch.",
)
@click.option(
    "--to",
    type=TOPIC,
    help="Dead-letter topic. Default: the dead-letter topic of the consumers if the broker knows it, else"
    " TOPIC-SUBSCRIPTION-DLQ.",
)
@subscription_act
def dead_letter(act: Act, id: str, to: str | None) -> None:  # noqa: A002 - the option's name
    """Copy a message to the dead-letter topic, then acknowledge it for the subscription.

    Use it for a message that no consumer can process. The copy has the properties of a client's dead letter, so that
    `vela redrive` can send it back. An undo returns the message to the subscription, but the copy stays.
    """
    act("send_to_dead_letters", {"id": id} if to is None else {"id": id, "to_topic": to})
