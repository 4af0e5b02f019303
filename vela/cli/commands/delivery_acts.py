"""Acts on delivery: pause, resume, disconnect, redeliver."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.subscription_act import Act, subscription_act

__all__ = ["disconnect", "pause", "redeliver", "resume"]


@click.command()
@subscription_act
def pause(act: Act) -> None:
    """Stop delivery until you resume it.

    Consumers stay connected and can acknowledge.
    """
    act("pause", {})


@click.command()
@subscription_act
def resume(act: Act) -> None:
    """Deliver again after a pause."""
    act("resume", {})


@click.command()
@click.option(
    "--key", type=click.IntRange(min=1), help="The consumer's number in `vela consumers`, instead of a name."
)
@click.option("--tell", metavar="TEXT", help="The reason that the broker gives the client.")
@subscription_act
@click.argument("consumer", required=False)
def disconnect(act: Act, consumer: str | None, key: int | None, tell: str | None) -> None:
    """Close a consumer. Its unacknowledged messages go to the other consumers.

    If you give a name, this closes all consumers of that name. Most clients reconnect.
    """
    act("disconnect", _whom(consumer, key) | ({} if tell is None else {"reason": tell}))


@click.command()
@click.option(
    "--key", type=click.IntRange(min=1), help="The consumer's number in `vela consumers`, instead of a name."
)
@subscription_act
@click.argument("consumer", required=False)
def redeliver(act: Act, consumer: str | None, key: int | None) -> None:
    """Take back the messages that a consumer has not acknowledged and deliver them again now."""
    act("redeliver", _whom(consumer, key))


def _whom(consumer: str | None, key: int | None) -> dict[str, Any]:
    if (consumer is None) is (key is None):
        raise click.UsageError("Name the consumer, with CONSUMER or with --key.")
    return {"consumer": consumer} if key is None else {"consumer_key": key}
