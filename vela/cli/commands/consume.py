"""`vela consume`: consume a subscription's messages and print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from vela.cli.acts.seek_check import require_message
from vela.cli.client import run_with_client
from vela.cli.commands.subscriptions import TYPES
from vela.cli.errors import as_json_is_asked, say
from vela.cli.options import json_option
from vela.cli.parameters import CONSUMER, SUBSCRIPTION, TOPIC
from vela.cli.printing import PIECE, Printing
from vela.cli.start import SEEK_TO, Start
from vela.cli.text.message_format import FORMATS
from vela.cli.text.numerals import messages as messages_word
from vela.cli.text.times import LENGTH

if TYPE_CHECKING:
    from vela.aio import Client, Consumer
    from vela.message import Message

__all__ = ["consume"]

_QUEUE: Final = 1000


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("subscription", type=SUBSCRIPTION)
@click.option(
    "-t",
    "--type",
    "kind",
    type=click.Choice(TYPES),
    default="Shared",
    show_default=True,
    help="How the subscription's consumers share messages.",
)
@click.option(
    "--start",
    type=click.Choice(["earliest", "latest"]),
    default="latest",
    show_default=True,
    help="Where the subscription begins if this command creates it.",
)
@click.option(
    "--seek",
    type=SEEK_TO,
    metavar="PLACE",
    help="Move the whole subscription first: earliest, latest, a time, or a message id.",
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="End after this many messages. Default: run until Ctrl-C.",
)
@click.option("--timeout", type=LENGTH, metavar="LENGTH", help="End if no message arrives for this long.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="What to print of each message.",
)
@click.option(
    "--no-ack", is_flag=True, help="Do not acknowledge messages, so that all of them are delivered again."
)
@click.option(
    "--consumer-name", type=CONSUMER, metavar="NAME", help="The consumer's name, which the console shows."
)
@json_option
def consume(topic: str, subscription: str, kind: str, start: str, seek: Start | None, **given: Any) -> None:
    """Consume a subscription's messages and print them.

    It creates the subscription and the topic if they do not exist. It acknowledges each message after writing it. It
    ends with exit code 3 if --timeout passes before --count messages arrived or, without --count, before any message
    arrived. If --seek names a message that is not stored, it moves nothing and ends with exit code 3.
    """
    printing = Printing(form="json" if as_json_is_asked() else given["form"], most=given["count"])

    async def follow(client: Client) -> None:
        from vela.options import ConsumerType, InitialPosition

        if seek is not None:
            await require_message(client, topic, seek)
        async with await client.subscribe(
            topic,
            subscription,
            consumer_type=ConsumerType[kind.replace("_", "")],
            receiver_queue_size=min(_QUEUE, given["count"] or _QUEUE),
            consumer_name=given["consumer_name"],
            initial_position=InitialPosition[start.title()],
            batch_index_ack_enabled=True,
            start_message_id_inclusive=True,
        ) as consumer:
            if seek is not None:
                await consumer.seek(seek.target())
            await _receive(consumer, printing, timeout_ms=given["timeout"], acks=not given["no_ack"])

    try:
        run_with_client(topic, follow)
    finally:
        if printing.written:
            say(f"{messages_word(printing.written)} consumed")
    printing.require_enough()


async def _receive(consumer: Consumer, printing: Printing, *, timeout_ms: int | None, acks: bool) -> None:
    """Receive until there are enough messages or the time is up. Acknowledge messages only after writing them."""
    from vela.errors import Timeout

    received: list[Message] = []

    async def settle() -> None:
        await printing.write()
        if acks and received:
            await consumer.acknowledge(received)
        received.clear()

    while not printing.is_enough:
        message = consumer.receive_nowait()
        if message is None or len(received) >= PIECE:
            await settle()
        if message is None:
            try:
                message = await consumer.receive(timeout_ms)
            except Timeout:
                return
        received.append(message)
        printing.add(message)
    await settle()
