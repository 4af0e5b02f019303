"""`vela redrive`: publish the messages of a dead-letter topic to their original topics."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.subscription_act import Act, one_topic_act
from vela.cli.parameters import TOPIC
from vela.cli.start import MESSAGE_ID
from vela.cli.text.times import MOMENT

__all__ = ["redrive"]


@click.command()
@click.option(
    "--to", type=TOPIC, help="Target topic. Default: for each message, the topic in its property REAL_TOPIC."
)
@click.option("--id", type=MESSAGE_ID, metavar="LEDGER:ENTRY[:INDEX]", help="Only this message.")
@click.option("--key", help="Only messages with this key.")
@click.option(
    "--property",
    "wanted",
    metavar="NAME[=VALUE]",
    help="Only messages with this property, or with this property and value.",
)
@click.option("--after", type=MOMENT, metavar="TIME", help="Only messages stored at or after this time.")
@click.option("--before", type=MOMENT, metavar="TIME", help="Only messages stored before this time.")
@click.option(
    "--most", type=click.IntRange(min=1), metavar="N", help="Maximum number of messages. Default: 10,000."
)
@click.option(
    "--rate", type=click.IntRange(min=0), metavar="N", help="Messages a second. Default: as fast as possible."
)
@click.option(
    "--max-redrives",
    type=click.IntRange(min=1),
    metavar="N",
    help="Leave out messages that were already redriven this many times or more. Default: 3.",
)
@one_topic_act
def redrive(act: Act, to: str | None, wanted: str | None, **given: Any) -> None:
    """Publish the messages of a dead-letter topic to their original topics.

    TOPIC and SUBSCRIPTION name the dead-letter topic and a subscription of it. If the topic is partitioned, run the
    command for each partition. The broker publishes each message and then acknowledges it on SUBSCRIPTION, so none is
    lost, but after a crash up to 100 of them may be published twice. If you interrupt this command, the redrive
    continues; `vela acts show` shows its progress.
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
