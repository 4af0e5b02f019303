"""The arguments that acts on a subscription share: topic, subscription, consent and, for most acts, partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Protocol

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out, partitions_option
from vela.cli.parameters import SUBSCRIPTION, TOPIC

__all__ = ["Act", "one_topic_act", "subscription_act"]

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class Act(Protocol):
    """Plans and applies acts on the subscription that the command line names. Raises CliError if an act is refused."""

    def __call__(self, kind: str, parameters: Mapping[str, Any]) -> None: ...


def subscription_act(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command TOPIC, SUBSCRIPTION, `--partition` and the options of every act.

    For all of these, the command receives one argument: `act`, which is an `Act`.
    """
    return _act(command, partitions_option)


def one_topic_act(command: Callable[..., None]) -> Callable[..., None]:
    """Do as `subscription_act` does, without `--partition`, for acts that the broker refuses on several partitions."""
    return _act(command, lambda wrapped: wrapped)


def _act(command: Callable[..., None], choose: _Decorator) -> Callable[..., None]:
    @click.argument("topic", type=TOPIC)
    @click.argument("subscription", type=SUBSCRIPTION)
    @choose
    @act_options
    @wraps(command)
    def wrapped(
        topic: str,
        subscription: str,
        consent: Consent,
        partitions: Mapping[str, str] | None = None,
        **given: Any,
    ) -> None:
        def act(kind: str, parameters: Mapping[str, Any]) -> None:
            asked = Asked(
                kind=kind,
                topic=topic,
                subscription=subscription,
                parameters={**parameters, **(partitions or {})},
            )
            carry_out(asked, consent)

        command(act=act, **given)

    return wrapped
