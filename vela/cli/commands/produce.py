"""`vela produce`: publish messages from arguments and files."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from vela.cli.client import run_with_client
from vela.cli.errors import CliError, Exit, as_json_is_asked, say
from vela.cli.options import FiniteRange, json_option
from vela.cli.outgoing import Outgoing, Source, files_of, messages_of
from vela.cli.parameters import PRODUCER, TOPIC
from vela.cli.text.numerals import messages as messages_word
from vela.cli.text.numerals import rate as rate_word
from vela.cli.text.output import emit
from vela.cli.text.progress import no_progress, progress_bar
from vela.cli.text.times import LENGTH, MOMENT

if TYPE_CHECKING:
    from vela.aio import Client, Producer
    from vela.message import MessageId
    from vela.options import CompressionType

__all__ = ["COMPRESSIONS", "compression_of", "produce"]

COMPRESSIONS: Final = ("none", "lz4", "zlib", "zstd", "snappy")
_WINDOW: Final = 1000  # most messages without a receipt
_FLUSH_S: Final = 10.0  # after an interrupt or an error, how long to wait for receipts of sent messages


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("messages", nargs=-1, metavar="[MESSAGE]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read this file; - is standard input. May be repeated.",
)
@click.option(
    "--as",
    "how",
    type=click.Choice(["lines", "json", "whole"]),
    default="lines",
    show_default=True,
    help="What makes a message: each line, each line's JSON object, or a whole file.",
)
@click.option("-k", "--key", help="The key, which chooses the partition and the consumer of Key_Shared.")
@click.option("--ordering-key", help="A key for Key_Shared, used instead of --key.")
@click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the messages. May be repeated.",
)
@click.option("--event-time", type=MOMENT, metavar="TIME", help="The time at which the event happened.")
@click.option(
    "--deliver-at",
    type=MOMENT,
    metavar="TIME",
    help="Deliver no earlier than this time, on Shared and Key_Shared.",
)
@click.option(
    "--deliver-after", type=LENGTH, metavar="LENGTH", help="Deliver no earlier than this long from now."
)
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="none",
    show_default=True,
    help="Compression of payloads; a batch is compressed as a whole.",
)
@click.option("--no-batching", is_flag=True, help="Send each message alone.")
@click.option(
    "--batch-messages",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Maximum number of messages in a batch.",
)
@click.option(
    "--chunking",
    is_flag=True,
    help="Cut messages that are too large for the broker into chunks. Needs --no-batching.",
)
@click.option(
    "--rate",
    type=FiniteRange(min=0, min_open=True),
    metavar="N",
    help="Messages a second. Default: as fast as possible.",
)
@click.option(
    "--producer-name",
    type=PRODUCER,
    metavar="NAME",
    help="The producer's name, unique on the topic. Deduplication uses it.",
)
@click.option("--ids", is_flag=True, help="Print the id of each message once it is stored.")
@json_option
def produce(topic: str, messages: tuple[str, ...], files: tuple[str, ...], how: str, **given: Any) -> None:
    """Publish messages: arguments, lines, JSON or whole files.

    Without MESSAGE and --file it reads standard input. It ends when all messages are stored. After an error it sends
    no more, and says how many messages were stored. A JSON object needs `payload` or `payload_base64`, and may have
    `key`, `ordering_key`, `properties`, `event_ms` and `deliver_at_ms`, so you can pipe `vela consume --json` into it.
    If a line is not a message, it ends with exit code 2 and names the line and the wrong member.
    """
    if given["chunking"] and not given["no_batching"]:
        raise click.UsageError("--chunking needs --no-batching.")
    if given["deliver_at"] is not None and given["deliver_after"] is not None:
        raise click.UsageError("Use either --deliver-at or --deliver-after, not both.")
    if given["ids"] and as_json_is_asked():
        raise click.UsageError("Use either --ids or --json, not both.")
    source = Source(arguments=messages, files=files_of(files, messages), how=how)
    if "-" in source.files and sys.stdin is None:
        raise CliError(
            "standard input is closed: give messages as arguments, or a file with --file", Exit.USAGE
        )
    is_typed = "-" in source.files and sys.stdin.isatty()
    if is_typed:
        say("type messages, one on each line; press Ctrl-D to end")
    work = _Work(source=source, defaults=_Defaults.of(given), rate=given["rate"], prints_ids=given["ids"])

    async def publish(client: Client) -> None:
        from vela.errors import MessageTooBig

        try:
            async with await _producer(client, topic, given) as producer:
                await work.run(producer, shows_progress=not is_typed and sys.stderr.isatty())
        except MessageTooBig as error:
            options = "--chunking" if given["no_batching"] else "--chunking --no-batching"
            text = str(error).replace("create the producer with chunking_enabled=True", f"add {options}")
            raise CliError(text, code="MessageTooBig") from error

    try:
        run_with_client(topic, publish)
    except BaseException:
        if work.stored:
            work.say_how_much()
        raise
    work.say_how_much()


def compression_of(name: str) -> CompressionType:
    """Return a compression by its name on the command line."""
    from vela.options import CompressionType

    return {each.name.lower(): each for each in CompressionType}[name]


async def _producer(client: Client, topic: str, given: dict[str, Any]) -> Producer:
    return await client.create_producer(
        topic,
        producer_name=given["producer_name"],
        compression_type=compression_of(given["compression"]),
        block_if_queue_full=True,
        batching_enabled=not given["no_batching"],
        batching_max_messages=given["batch_messages"],
        chunking_enabled=given["chunking"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Defaults:
    """The values for messages that do not set their own."""

    key: str | None
    ordering_key: str | None
    properties: dict[str, str]
    event_ms: int | None
    deliver_at_ms: int | None

    @classmethod
    def of(cls, given: dict[str, Any]) -> _Defaults:
        properties = {}
        for each in given["properties"]:
            name, separator, value = each.partition("=")
            if not separator:
                raise click.UsageError(f"--property {each!r}: write it as NAME=VALUE.")
            properties[name] = value
        deliver_at = given["deliver_at"]
        if given["deliver_after"] is not None:
            deliver_at = int(time.time() * 1000) + given["deliver_after"]
        return cls(
            key=given["key"],
            ordering_key=given["ordering_key"],
            properties=properties,
            event_ms=given["event_time"],
            deliver_at_ms=deliver_at,
        )

    def send(self, producer: Producer, message: Outgoing) -> asyncio.Future[MessageId]:
        """Send a message. The future is done when the message is stored."""
        return producer.send_async(
            message.payload,
            properties={**self.properties, **message.properties} or None,
            partition_key=message.key or self.key,
            ordering_key=message.ordering_key or self.ordering_key,
            event_timestamp=message.event_ms or self.event_ms,
            deliver_at=message.deliver_at_ms or self.deliver_at_ms,
        )


@dataclass(slots=True, kw_only=True)
class _Work:
    """Reads, sends and counts messages, with a bounded number of messages without a receipt."""

    source: Source
    defaults: _Defaults
    rate: float | None
    prints_ids: bool
    stored: int = 0
    stored_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    _began: float = field(default_factory=time.monotonic)
    _waiting: deque[tuple[asyncio.Future[MessageId], int]] = field(default_factory=deque)

    async def run(self, producer: Producer, *, shows_progress: bool) -> None:
        """Send all messages of the source.

        Raises CliError if a message cannot be sent, and VelaError if one was not stored. After an error no more are
        sent, but the receipts of the earlier messages are counted.
        """
        from vela.errors import VelaError

        self._began = time.monotonic()
        sent = 0
        with progress_bar(self.source.size_bytes) if shows_progress else no_progress() as advance:
            try:
                async for message in messages_of(self.source):
                    if self.rate is not None:
                        await self._until_due(sent)
                    self._waiting.append((self.defaults.send(producer, message), len(message.payload)))
                    sent += 1
                    advance(message.read_bytes)
                    while len(self._waiting) >= _WINDOW:
                        await self._settle_oldest()
                while self._waiting:
                    await self._settle_oldest()
            except (asyncio.CancelledError, CliError, VelaError):
                await self._settle_sent()
                raise

    async def _until_due(self, sent: int) -> None:
        due = self._began + sent / (self.rate or 1)
        while (left := due - time.monotonic()) > 0:
            while self._waiting and self._waiting[0][0].done():
                await self._settle_oldest()
            await asyncio.sleep(left)

    async def _settle_oldest(self) -> None:
        from vela.cli.text.message_format import id_text

        future, size_bytes = self._waiting.popleft()
        last_id = id_text(await future)
        self.stored += 1
        self.stored_bytes += size_bytes
        self.first_id = self.first_id or last_id
        self.last_id = last_id
        if self.prints_ids:
            click.echo(last_id)

    async def _settle_sent(self) -> None:
        """Wait for the receipts of the messages that were sent before an error, and say how many got no receipt."""
        from vela.errors import VelaError

        without = 0
        try:
            async with asyncio.timeout(_FLUSH_S):
                while self._waiting:
                    try:
                        await self._settle_oldest()
                    except VelaError:
                        without += 1
        except TimeoutError:
            without += 1 + len(self._waiting)
        if without:
            say(f"{messages_word(without)} more were sent, but got no receipt")

    def say_how_much(self) -> None:
        """Print how many messages were stored, even after an error."""
        seconds = max(time.monotonic() - self._began, 1e-6)
        if as_json_is_asked():
            emit(
                {
                    "messages": self.stored,
                    "bytes": self.stored_bytes,
                    "seconds": round(seconds, 3),
                    "first_id": self.first_id or None,
                    "last_id": self.last_id or None,
                }
            )
        else:
            say(f"{messages_word(self.stored)} stored in {seconds:.1f} s, {rate_word(self.stored / seconds)}")
