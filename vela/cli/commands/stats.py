"""`vela stats`: show numbers once, or keep them up to date."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vela.cli.commands.topics.topics import ORDERS, topic_cells, topic_words
from vela.cli.console import ConsoleApi, console_api
from vela.cli.errors import as_json_is_asked
from vela.cli.options import FiniteRange, json_option
from vela.cli.parameters import TOPIC
from vela.cli.text.names import topic_path
from vela.cli.text.numerals import ago, count, length, plural, rate, size
from vela.cli.text.output import emit, print_rich, table, toned

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["stats"]

_MOST_SUBSCRIPTIONS = 500
_TOPICS = (
    "topic",
    "state",
    "parts",
    "backlog",
    "largest on",
    "in",
    "acked",
    "subs",
    "consumers",
    "stored",
    "last publish",
)
_SUBSCRIPTIONS = (
    "subscription", "state", "backlog", "oldest", "consumers", "unacked", "permits", "out", "acked",
    "redelivered", "time left", "changed",
)  # fmt: skip

_TROUBLES = {
    "broker-silent": "the broker is silent: states are unknown, and the numbers are from its last report",
    "broker-stopped": "no broker is running: the numbers are from before it stopped",
    "no-broker": "no broker has run on this database yet",
    "beat": "Celery beat is silent",
    "worker": "Celery's tick worker is silent",
}
# columns to leave out on a narrow terminal, in this order
_SPARE = (
    "changed",
    "redelivered",
    "permits",
    "last publish",
    "stored",
    "time left",
    "largest on",
    "subs",
    "out",
    "oldest",
)


@click.command()
@click.argument("topic", type=TOPIC, required=False)
@click.option(
    "--once", is_flag=True, help="Print the numbers once and end. Without a terminal this is the default."
)
@click.option(
    "--interval",
    type=FiniteRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to show new numbers. With this option, --json also continues in a pipe.",
)
@click.option(
    "--sort",
    type=click.Choice(ORDERS),
    default="backlog",
    show_default=True,
    help="Order of the topics. Not with TOPIC.",
)
@click.option(
    "--search", metavar="TEXT", default="", help="Only topics with this text in their names. Not with TOPIC."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 500),
    default=30,
    show_default=True,
    help="Number of topics to show. Not with TOPIC.",
)
@json_option
def stats(topic: str | None, once: bool, interval: float, sort: str, search: str, limit: int) -> None:
    """Show the numbers of topics and subscriptions, and keep them up to date.

    Without TOPIC it shows sums over all topics and the topics with the largest backlogs; with TOPIC, that topic's
    subscriptions. With --json it prints a document each time. Press Ctrl-C to end it. It reads from the console,
    so set --user. Without VELA_PASSWORD, vela asks for the password. The first password of admin is in the output of
    make run.
    """
    given = _is_given("interval")
    if topic is not None:
        for name in ("search", "sort", "limit"):
            if _is_given(name):
                raise click.UsageError(
                    f"--{name} applies to the list of topics: leave out the option, or TOPIC."
                )
    is_once = once or not (sys.stdout.isatty() or (given and as_json_is_asked()))
    with console_api() as api:
        if topic is not None:
            look = _Look(api, {"stats": (f"{topic_path(topic)}/stats", {"limit": _MOST_SUBSCRIPTIONS})})
            render: Callable[[dict[str, Any]], RenderableType] = _subscriptions
        else:
            query = {"sort": sort, "q": search, "limit": limit}
            look = _Look(api, {"totals": ("stats", {}), "topics": ("topics", query)})
            render = _everything
        if as_json_is_asked():
            _print_each(look, interval, is_once=is_once)
        elif is_once:
            print_rich(render(look.read()))
        else:
            _keep_showing(look, render, interval)


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


@dataclass(slots=True)
class _Look:
    """Reads the same addresses each time. The console does not send unchanged answers again."""

    api: ConsoleApi
    asked: dict[str, tuple[str, dict[str, Any]]]
    _known: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        """Return the answers by name, or the answer itself if there is only one."""
        for name, (path, query) in self.asked.items():
            etag, body = self._known.get(name, ("", {}))
            answer = self.api.fetch(path, etag=etag, **query)
            self._known[name] = (etag, body) if answer.status == 304 else (answer.etag, answer.body)
        bodies = {name: body for name, (_, body) in self._known.items()}
        return next(iter(bodies.values())) if len(bodies) == 1 else bodies


def _print_each(look: _Look, interval: float, *, is_once: bool) -> None:
    while True:
        emit({"read_ms": int(time.time() * 1000), **look.read()})
        if is_once:
            return
        sys.stdout.flush()
        time.sleep(interval)


def _keep_showing(look: _Look, render: Callable[[dict[str, Any]], RenderableType], interval: float) -> None:
    from rich.live import Live

    from vela.cli.text.output import rich_console

    with Live(render(look.read()), console=rich_console(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(render(look.read()), refresh=True)


def _everything(read: dict[str, Any]) -> RenderableType:
    from rich.console import Group

    totals, page = read["totals"], read["topics"]
    rows = page["topics"]
    right = ("parts", "backlog", "in", "acked", "subs", "consumers", "stored")
    shown = table(_TOPICS, [topic_cells(row) for row in rows], right=right, spare=_SPARE)
    more = "there are more topics: --limit shows up to 500" if page["next_after"] else ""
    return Group(*_head(totals), "", shown if rows else "no topics", more)


def _head(totals: dict[str, Any]) -> list[RenderableType]:
    broker = totals["broker"]
    lines: list[RenderableType] = []
    if broker["is_running"]:
        lines.append(f"broker on {broker['host']}, pid {broker['pid']}")
    lines += [toned(_TROUBLES.get(trouble, trouble), "bad") for trouble in totals["troubles"]]
    lines.append(
        f"{plural(totals['topics'], 'topic')}: in {rate(totals['message_rate_in'])} ({size(totals['byte_rate_in'])}/s),"
        f" out {rate(totals['message_rate_out'])}, acked {rate(totals['message_rate_acked'])},"
        f" backlog {count(totals['backlog_messages'])}, unacked {count(totals['unacked_messages'])},"
        f" {plural(totals['producers'], 'producer')}, {plural(totals['consumers'], 'consumer')},"
        f" {size(totals['stored_bytes'])} stored"
    )
    if totals["waiting_acts"]:
        lines.append(toned(f"{totals['waiting_acts']} acts wait for a broker", "warn"))
    return lines


def _subscriptions(read: dict[str, Any]) -> RenderableType:
    from rich.console import Group

    rows = read["subscriptions"]
    right = (
        "backlog",
        "oldest",
        "consumers",
        "unacked",
        "permits",
        "out",
        "acked",
        "redelivered",
        "time left",
        "changed",
    )
    shown = table(_SUBSCRIPTIONS, [_cells(row) for row in rows], right=right, spare=_SPARE)
    return Group(topic_words(read["topic"]), "", shown if rows else "no subscriptions")


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    standing = row["standing"]
    return (
        row["name"],
        toned(standing["state"], standing["tone"]),
        count(row["backlog_messages"]),
        ago(row["oldest_unacked_ms"]),
        count(row["consumers"]),
        count(row["unacked_messages"]),
        count(row["permits"]),
        rate(row["message_rate_out"]),
        rate(row["message_rate_acked"]),
        count(row["messages_redelivered"]),
        "" if standing["drain_s"] is None else length(standing["drain_s"]),
        ago(row["updated_ms"]),
    )
