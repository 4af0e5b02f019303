"""Redrive of a dead-letter topic."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.subscription_act import Act, subscription_act
from vela.cli.parameters import TOPIC
from vela.cli.text.times import MOMENT

__all__ = ["redrive"]


@click.command()
@click.option(
    "--to", type=TOPIC, help="Where they go; else each to the topic that its property REAL_TOPIC names."
)
@click.option("--key", help="Only messages with this key.")
@click.option(
    "--property",
    "wanted",
    metavar="NAME[=VALUE]",
    help="Only messages with this property, or with this value of it.",
)
@click.option("--after", type=MOMENT, metavar="TIME", help="Only what was stored at or after this time.")
@click.option("--before", type=MOMENT, metavar="TIME", help="Only what was stored before this time.")
@click.option("--most", type=click.IntRange(min=1), metavar="N", help="So many at most; else 10,000.")
@click.option(
    "--rate", type=click.IntRange(min=0), metavar="N", help="So many a second; else as fast as it goes."
)
@click.option(
    "--max-redrives",
    type=click.IntRange(min=1),
    metavar="N",
    help="Leave what was redriven so often; else 3.",
)
@subscription_act
def redrive(act: Act, to: str | None, wanted: str | None, **given: Any) -> None:
    """Publish what waits in a dead-letter topic to where it came from.

    TOPIC and SUBSCRIPTION are the dead-letter topic's. Each message is published, then acknowledged there: never lost,
    at worst twice. It goes on when this command is interrupted; `vela acts show` says how far it is.
    """
    parameters = {"to_topic": to, **_property(wanted)}
    parameters |= {
        f"{name}_ms" if name in ("after", "before") else name: value for name, value in given.items()
    }
    act("redrive", {name: value for name, value in parameters.items() if value is not None})


def _property(wanted: str | None) -> dict[str, str]:
    if wanted is None:
        return {}
    name, separator, value = wanted.partition("=")
    return {"property_name": name, **({"property_value": value} if separator else {})}
