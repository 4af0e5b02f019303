"""The options that say where in a topic to put a cursor or a bookmark."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from vela.cli.parameters import SUBSCRIPTION
from vela.cli.start import MESSAGE_ID
from vela.cli.text.times import LENGTH, MOMENT

__all__ = ["place_options"]

_WAYS = ("earliest", "latest", "time", "back", "id", "after_id", "like", "bookmark")


def place_options(
    *, default: str = "", bookmark: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each kind of place. The command receives an act's parameters as `place`.

    Exactly one option must be given, unless there is a default.
    """
    ways = [way for way in _WAYS if bookmark or way != "bookmark"]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def placed(**given: Any) -> None:
            chosen = {way: given.pop(way) for way in ways}
            said = [way for way, value in chosen.items() if value is not None and value is not False]
            if not said and default:
                command(place={"to": default}, **given)
                return
            if len(said) != 1:
                raise click.UsageError(f"Say where, with exactly one of {', '.join(map(_option, ways))}.")
            command(place=_parameters(said[0], chosen[said[0]]), **given)

        for option in reversed(_options(bookmark=bookmark, default=default)):
            placed = option(placed)
        return placed

    return decorate


def _option(way: str) -> str:
    return f"--{way.replace('_', '-')}"


def _parameters(way: str, value: Any) -> dict[str, Any]:
    match way:
        case "time":
            return {"to": "time", "time_ms": value}
        case "back":
            return {"to": "back_time", "back_ms": value}
        case "after_id":
            return {"to": "id", "id": value, "inclusive": False}
        case "id" | "like" | "bookmark":
            return {"to": way, way: value}
        case _:
            return {"to": way}


def _options(*, bookmark: bool, default: str) -> list[Callable[[Callable[..., None]], Callable[..., None]]]:
    end = " The default." if default == "latest" else ""
    options: list[Callable[[Callable[..., None]], Callable[..., None]]] = [
        click.option("--earliest", is_flag=True, help="The first message kept."),
        click.option("--latest", is_flag=True, help=f"After the last message.{end}"),
        click.option(
            "--time", type=MOMENT, metavar="TIME", help="The first message stored at or after this time."
        ),
        click.option("--back", type=LENGTH, metavar="LENGTH", help="This long before now: 90s, 15m, 2h, 7d."),
        click.option(
            "--id", type=MESSAGE_ID, metavar="LEDGER:ENTRY[:INDEX]", help="This message comes next."
        ),
        click.option(
            "--after-id",
            type=MESSAGE_ID,
            metavar="LEDGER:ENTRY[:INDEX]",
            help="The message after this one comes next.",
        ),
        click.option("--like", type=SUBSCRIPTION, help="The position of another subscription of the topic."),
    ]
    if bookmark:
        options.append(click.option("--bookmark", metavar="NAME", help="A bookmark of the topic."))
    return options
