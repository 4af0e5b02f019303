"""What all acts on a subscription share: topic, subscription, partitions and consent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Protocol

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out
from vela.cli.acts.partition_acts import on_partitions_with_it
from vela.cli.parameters import SUBSCRIPTION, TOPIC

__all__ = ["Act", "subscription_act"]


class Act(Protocol):
    """Plans and applies an act of this kind on the subscription that the command line names. Raises CliError."""

    def __call__(self, kind: str, parameters: Mapping[str, Any]) -> None: ...


def subscription_act(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command TOPIC, SUBSCRIPTION, `--all-partitions` and the options of every act. It receives `act`."""

    @click.argument("topic", type=TOPIC)
    @click.argument("subscription", type=SUBSCRIPTION)
    @click.option("--all-partitions", is_flag=True, help="Act on each partition of a partitioned topic.")
    @act_options
    @wraps(command)
    def wrapped(topic: str, subscription: str, all_partitions: bool, consent: Consent, **given: Any) -> None:
        def act(kind: str, parameters: Mapping[str, Any]) -> None:
            asked = Asked(kind=kind, topic=topic, subscription=subscription, parameters=parameters)
            if not all_partitions:
                carry_out([asked], consent)
                return
            from vela.cli.console import console_api

            with console_api() as api:
                everywhere = on_partitions_with_it(api, asked)
            carry_out(everywhere, consent)

        command(act=act, **given)

    return wrapped
