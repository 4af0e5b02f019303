"""`vela bench`: measure the throughput and the latency of a broker."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from vela.cli.benchmark import (
    LEAST_BYTES,
    Latency,
    Load,
    Throughput,
    measure_latency,
    measure_throughput,
    percentile,
)
from vela.cli.client import run_with_client
from vela.cli.commands.produce import COMPRESSIONS, compression_of
from vela.cli.commands.subscriptions import TYPES
from vela.cli.console import ConsoleApi
from vela.cli.errors import CliError, as_json_is_asked, say
from vela.cli.options import FiniteRange, json_option
from vela.cli.settings import settings
from vela.cli.text.names import full_name, short_name
from vela.cli.text.numerals import rate, size
from vela.cli.text.output import emit, print_rich, table
from vela.wire.topic_name import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vela.aio import Client

__all__ = ["bench"]

_PERCENTS = (50, 95, 99)


@dataclass(slots=True)
class _Figures:
    throughput: Throughput | None = None
    latency: Latency | None = None


@click.command()
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    metavar="N",
    help="Number of messages to send, as fast as possible.",
)
@click.option(
    "--size",
    "size_bytes",
    type=click.IntRange(min=LEAST_BYTES),
    default=100,
    show_default=True,
    metavar="BYTES",
    help="Size of a message in bytes.",
)
@click.option(
    "--rate",
    "per_second",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    metavar="N",
    help="Messages a second while latency is measured.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to measure latency; 0: not at all.",
)
@click.option(
    "-t",
    "--type",
    "kind",
    type=click.Choice(TYPES),
    default="Shared",
    show_default=True,
    help="Type of the subscription.",
)
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="none",
    show_default=True,
    help="Compression of payloads.",
)
@click.option("--no-batching", is_flag=True, help="Send each message alone, in the throughput test too.")
@click.option(
    "--namespace",
    metavar="TENANT/NAMESPACE",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Create the topic in this namespace.",
)
@click.option("--keep", is_flag=True, help="Do not delete the topic afterwards.")
@json_option
def bench(size_bytes: int, namespace: str, keep: bool, **given: Any) -> None:
    """Measure publishing and consuming on a new topic.

    A producer and a consumer run in this process at the same time. First they run as fast as possible. Then they run
    message by message at a lower rate, to measure the time until the broker confirms a message, and until the
    consumer has it.
    Afterwards vela deletes the topic through the console, if VELA_USER is allowed to act.
    """
    from vela.options import ConsumerType

    try:
        topic = full_name(f"{namespace}/bench-{secrets.token_hex(4)}")
    except ValueError as error:
        raise click.UsageError(f"--namespace {namespace!r}: write it as tenant/namespace.") from error
    load = Load(
        topic=topic,
        messages=given["messages"],
        size_bytes=size_bytes,
        consumer_type=ConsumerType[given["kind"].replace("_", "")],
        compression=compression_of(given["compression"]),
        is_batched=not given["no_batching"],
        rate=given["per_second"],
        latency_s=given["seconds"],
    )
    figures = _Figures()
    try:
        run_with_client(topic, lambda client: _measure(client, load, figures))
    finally:
        if keep:
            say(f"the topic is {short_name(topic)}")
        else:
            _delete(topic)
    _show(load, figures)


async def _measure(client: Client, load: Load, figures: _Figures) -> None:
    figures.throughput = await measure_throughput(client, load)
    if load.latency_s:
        figures.latency = await measure_latency(client, load)


def _show(load: Load, figures: _Figures) -> None:
    throughput, latency = figures.throughput, figures.latency
    assert throughput is not None
    if as_json_is_asked():
        emit(
            {
                "topic": load.topic,
                "messages": load.messages,
                "size_bytes": load.size_bytes,
                "published_per_s": round(throughput.published_per_s),
                "consumed_per_s": round(throughput.consumed_per_s),
                "latency": None
                if latency is None
                else {
                    "messages": latency.messages,
                    "per_s": load.rate,
                    "publish_ms": _percentiles(latency.publish_ms),
                    "end_to_end_ms": _percentiles(latency.end_to_end_ms),
                },
            }
        )
        return
    rows = [
        (word, rate(per_s), f"{size(per_s * load.size_bytes)}/s")
        for word, per_s in (
            ("published", throughput.published_per_s),
            ("consumed", throughput.consumed_per_s),
        )
    ]
    shown = [table(("as fast as possible", "messages", "payload"), rows, right=("messages", "payload"))]
    if latency is not None:
        names = ("p50", "p95", "p99", "max")
        times = [
            (word, *(f"{value:.2f} ms" for value in _percentiles(values).values()))
            for word, values in (
                ("send to confirmation", latency.publish_ms),
                ("send to consumer", latency.end_to_end_ms),
            )
        ]
        shown.append(table((f"at {load.rate:,}/s", *names), times, right=names))
    print_rich(shown[0], *(part for each in shown[1:] for part in ("", each)))


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    found = {f"p{percent}": round(percentile(values, percent), 3) for percent in _PERCENTS}
    return {**found, "max": round(values[-1], 3)}


def _delete(topic: str) -> None:
    """Delete the topic through the console, without asking: this command has created it."""
    asked = settings()
    try:
        if not asked.user or not asked.password:
            raise CliError("to have it deleted, set VELA_USER and VELA_PASSWORD")
        with ConsoleApi(asked, timeout_s=10) as api:
            body = {
                "kind": "delete_topic",
                "topic": topic,
                "parameters": {"force": True},
                "reason": "vela bench",
            }
            act = api.settled(api.post("acts", body), wait_s=10)
            api.settled(api.post(f"acts/{act['id']}/apply", {}), wait_s=10)
    except CliError as error:
        say(f"the topic {short_name(topic)} was not deleted: {error.message}")
