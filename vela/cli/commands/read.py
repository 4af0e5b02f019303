"""`vela read`: print a topic's messages without a subscription."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from vela.cli.client import run_with_client
from vela.cli.errors import CliError, as_json_is_asked, say
from vela.cli.options import json_option
from vela.cli.parameters import TOPIC
from vela.cli.printing import PIECE, Printing
from vela.cli.start import SEEK_TO, Start
from vela.cli.text.message_format import FORMATS
from vela.cli.text.numerals import messages as messages_word
from vela.cli.text.numerals import plural
from vela.cli.text.times import LENGTH

if TYPE_CHECKING:
    from vela.aio import Client, Reader
    from vela.message import Message

__all__ = ["read"]

_SILENT_S: Final = 10.0  # after this time without a message, say so


@click.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "--from",
    "place",
    type=SEEK_TO,
    default="earliest",
    show_default="earliest",
    metavar="PLACE",
    help="Where to begin: earliest, latest, a time, or a message id.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="N", help="End after this many messages.")
@click.option("--follow", is_flag=True, help="Wait for more at the end of the topic, until Ctrl-C.")
@click.option(
    "--timeout", type=LENGTH, metavar="LENGTH", help="With --follow: end if no message arrives for this long."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="What to print of each message.",
)
@json_option
def read(topic: str, place: Start, count: int | None, follow: bool, timeout: int | None, form: str) -> None:
    """Print a topic's messages without a subscription.

    It moves no cursor, acknowledges nothing, and creates no persistent topic. It ends at the end of the topic, with
    exit code 3 if the topic does not exist, or if it has no messages or fewer than --count. It leaves out entries that
    it cannot decode: it names each on standard error, and ends with exit code 1.
    """
    if timeout is not None and not follow:
        raise click.UsageError("--timeout needs --follow.")
    printing = Printing(form="json" if as_json_is_asked() else form, most=count)

    async def go_through(client: Client) -> int:
        async with await _reader(client, topic, place) as reader:
            await _read(reader, printing, follows=follow, timeout_ms=timeout)
            return sum(reader.statistics().entries_discarded.values())

    try:
        left_out = run_with_client(topic, go_through)
    finally:
        if printing.written:
            say(f"{messages_word(printing.written)} read")
    if left_out:
        raise CliError(
            f"{plural(left_out, 'entry', 'entries')} could not be decoded and"
            f" {'is' if left_out == 1 else 'are'} left out: see above",
            code="EntriesLeftOut",
            entries=left_out,
        )
    printing.require_enough()


async def _reader(client: Client, topic: str, place: Start) -> Reader:
    from vela.message import MessageId
    from vela.options import ConsumerCryptoFailureAction

    if topic.startswith("persistent:"):  # a non-persistent topic exists only while a client is connected
        await client.partitions(topic, create=False)
    target = place.target()
    if isinstance(target, MessageId):
        return await client.create_reader(
            topic,
            target,
            start_message_id_inclusive=target != MessageId.latest,
            crypto_failure_action=ConsumerCryptoFailureAction.DISCARD,
        )
    reader = await client.create_reader(
        topic, MessageId.earliest, crypto_failure_action=ConsumerCryptoFailureAction.DISCARD
    )
    await reader.seek(target)
    return reader


async def _awaited(following: asyncio.Future[Message]) -> Message:
    """Wait for the message. If it does not arrive for a while although the topic has more, say so once."""
    saying = asyncio.get_running_loop().call_later(
        _SILENT_S,
        say,
        f"waiting: the topic has more messages, but the broker has sent none for {_SILENT_S:.0f} s. Its log says why."
        " Ctrl-C ends the wait.",
    )
    try:
        return await following
    finally:
        saying.cancel()


async def _read(reader: Reader, printing: Printing, *, follows: bool, timeout_ms: int | None) -> None:
    """Read until there are enough messages, the topic ends or the time is up. Write messages before each wait."""
    from vela.errors import Timeout

    gathered = 0
    while not printing.is_enough and (follows or await reader.has_message_available()):
        following = asyncio.ensure_future(reader.read_next(timeout_ms))
        await asyncio.sleep(0)
        if gathered >= PIECE or not following.done():
            await printing.write()
            gathered = 0
        try:
            printing.add(await (following if follows or following.done() else _awaited(following)))
        except Timeout:
            break
        gathered += 1
    await printing.write()
