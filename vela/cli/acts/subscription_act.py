"""The arguments that all acts on a subscription share: topic, subscription, partitions and consent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Protocol

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out, partitions_option
from vela.cli.parameters import SUBSCRIPTION, TOPIC

__all__ = ["Act", "subscription_act"]


class Act(Protocol):
    """Plans and applies acts on the subscription that the command line names. Raises CliError if one is refused."""

    def __call__(self, kind: str, parameters: Mapping[str, Any]) -> None: ...


def subscription_act(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command TOPIC, SUBSCRIPTION, `--partition` and the options of every act. It receives `act`."""

    @click.argument("topic", type=TOPIC)
    @click.argument("subscription", type=SUBSCRIPTION)
    @partitions_option
    @act_options
    @wraps(command)
    def wrapped(
        topic: str, subscription: str, partitions: Mapping[str, str], consent: Consent, **given: Any
    ) -> None:
        def act(kind: str, parameters: Mapping[str, Any]) -> None:
            asked = Asked(
                kind=kind, topic=topic, subscription=subscription, parameters={**parameters, **partitions}
            )
            carry_out(asked, consent)

        command(act=act, **given)

    return wrapped
