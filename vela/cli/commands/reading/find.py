"""`vela find`: search a topic's messages without consuming anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from vela.cli.console import ConsoleApi, console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.options import json_option
from vela.cli.parameters import SUBSCRIPTION, TOPIC
from vela.cli.start import SEEK_TO, Start
from vela.cli.text.names import topic_path
from vela.cli.text.numerals import UNKNOWN, count, messages, size
from vela.cli.text.output import emit, print_rich, table
from vela.cli.text.times import moment

__all__ = ["find"]

_PAGE: Final = 500
# The console ignores these options if they are empty, and would find every message.
_WANTED: Final = {
    "key": "--key",
    "prop": "--property",
    "path": "--json-path",
    "value": "--value",
    "text": "--text",
}


@click.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "--key", metavar="TEXT", help="Only messages with this key. Write a binary key as its text or its base64."
)
@click.option(
    "--property",
    "prop",
    metavar="NAME[=VALUE]",
    help="Only messages with this property, or with this property and value.",
)
@click.option(
    "--json-path",
    "path",
    metavar="PATH",
    help="Only messages with a value at this path of their JSON payload: items[0].sku, items[*].price.",
)
@click.option(
    "--op",
    type=click.Choice(["=", "!=", "<", "<=", ">", ">=", "contains", "exists"]),
    help="How the value at --json-path compares with --value. Default: =, or exists without --value.",
)
@click.option("--value", metavar="TEXT", help="What to compare with, as JSON or text.")
@click.option("--text", metavar="TEXT", help="Only messages with this text in their payload.")
@click.option(
    "--column",
    metavar="COLUMN",
    multiple=True,
    help="Show this column in place of key and payload: $.order.id for a value in JSON, property:region, or key. Give"
    " the option once for each column.",
)
@click.option(
    "--from",
    "place",
    type=SEEK_TO,
    metavar="PLACE",
    help="Where to begin: earliest, latest, a time, or a message id. Default: latest.",
)
@click.option(
    "--older",
    "order",
    flag_value="older",
    help="Go towards older messages. This is the default if the search begins at the latest.",
)
@click.option(
    "--newer",
    "order",
    flag_value="newer",
    help="Go towards newer messages. This is the default if the search begins anywhere else.",
)
@click.option(
    "--partition", type=click.IntRange(0, 1_000_000), metavar="N", help="Search this partition only."
)
@click.option(
    "-s",
    "--subscription",
    type=SUBSCRIPTION,
    help="Show the state of each message on this subscription.",
)
@click.option(
    "--next", "only", flag_value="next", help="Only messages that --subscription has not acknowledged."
)
@click.option(
    "--holes",
    "only",
    flag_value="holes",
    help="Only messages that --subscription has not acknowledged, although it has acknowledged later ones.",
)
@click.option(
    "-n",
    "--count",
    "limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="End after this many messages.",
)
@json_option
def find(
    topic: str,
    place: Start | None,
    only: str | None,
    subscription: str | None,
    limit: int,
    column: tuple[str, ...],
    **asked: str | int | None,
) -> None:
    """Find messages of a topic by key, property, JSON value or text.

    This does not consume them. It searches until it has found --count messages or has looked at everything, which may
    take a long time on a large topic; Ctrl-C ends it. Standard error says how much it searched.
    """
    if empty := [option for name, option in _WANTED.items() if asked[name] == ""]:
        raise click.UsageError(f"{empty[0]} is empty: leave it out, or say what to find.")
    if asked["path"] is None and (needs := next((name for name in ("op", "value") if asked[name]), None)):
        raise click.UsageError(f"--{needs} needs --json-path.")
    if only and not subscription:
        raise click.UsageError(f"--{only} needs --subscription.")
    if only and place is not None:
        raise click.UsageError(f"--{only} begins at the cursor: leave out --from.")
    where = _start(place) if only is None else {"start": only}
    with console_api() as api:
        found, looked = _search(api, topic, limit, {**asked, **where, "sub": subscription, "column": column})
    if found and not as_json_is_asked():
        print_rich(_table(found, has_states=subscription is not None))
    say(looked)


def _start(place: Start | None) -> dict[str, str]:
    """Return the parameters of `/api/v1` for a place."""
    if place is None or place.word == "latest":
        return {"start": "newest"}
    if place.word == "earliest":
        return {"start": "oldest"}
    if place.time_ms is not None:
        return {"start": "time", "at": datetime.fromtimestamp(place.time_ms / 1000, UTC).isoformat()}
    assert place.id is not None
    _, ledger_id, entry_id, index = place.id
    position = f"{ledger_id}:{entry_id}"
    return {"start": "id", "at": position if index < 0 else f"{position}:{index}"}


def _search(
    api: ConsoleApi, topic: str, limit: int, asked: dict[str, str | int | tuple[str, ...] | None]
) -> tuple[list[dict[str, Any]], str]:
    """Search page by page. Print JSON at once. Return messages for a table, and a sentence on how much was searched."""
    found: list[dict[str, Any]] = []
    matched = entries = 0
    after = ""
    while True:
        page = api.get(
            f"{topic_path(topic)}/messages", limit=min(limit - matched, _PAGE), after=after, **asked
        )
        for message in page["messages"]:
            if as_json_is_asked():
                emit(message)
            else:
                found.append(message)
        looked = page["looked_at"]
        matched, entries = matched + len(page["messages"]), entries + looked["entries"]
        following = page["next_after"] or ""
        if not following or matched >= limit or following == after:
            return found, _words(matched, entries, looked, is_whole=looked["stopped_by"] == "end")
        after = following


def _words(matched: int, entries: int, looked: dict[str, Any], *, is_whole: bool) -> str:
    way = "by key hash" if looked["by_key_hash"] else "scanned"
    end = "" if is_whole else "; there may be more"
    left = "".join(f", {count(number)} {why} not searched" for why, number in looked["not_searched"].items())
    return f"{messages(matched)} found, {way}: {count(entries)} of {count(looked['stored_entries'])} entries{left}{end}"


def _table(found: list[dict[str, Any]], *, has_states: bool) -> Any:
    chosen = tuple(found[0]["columns"])
    return table(
        ("id", "stored", *(("state",) if has_states else ()), *(chosen or ("key", "size", "payload"))),
        [
            (
                message["id"],
                moment(message["append_ms"]),
                *((_state(message["state"]),) if has_states else ()),
                *(_chosen(message) if chosen else _contents(message)),
            )
            for message in found
        ],
        right=() if chosen else ("size",),
    )


def _contents(message: dict[str, Any]) -> tuple[str, ...]:
    return (
        _or_unknown(message["key"]),
        size(message["size_bytes"]),
        message["trouble"] or message["preview"],
    )


def _chosen(message: dict[str, Any]) -> list[str]:
    """Return the chosen columns. If the message cannot be read, the first column without a value says why."""
    values = list(message["columns"].values())
    if message["trouble"] and None in values:
        values[values.index(None)] = message["trouble"]
    return [_or_unknown(value) for value in values]


def _or_unknown(value: str | None) -> str:
    return UNKNOWN if value is None else value


def _state(state: dict[str, Any] | None) -> str:
    if state is None:
        return UNKNOWN
    return f"{state['state']} at {state['consumer']}" if state["consumer"] else str(state["state"])
