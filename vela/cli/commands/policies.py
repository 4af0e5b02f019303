"""`vela policies`: what holds for a namespace or a topic."""

from __future__ import annotations

import click

from vela.cli.act_flow import Asked, Consent, act_options, carry_out
from vela.cli.lazy import OrderedGroup
from vela.cli.names import full_name, is_namespace

__all__ = ["policies"]


@click.group(cls=OrderedGroup)
def policies() -> None:
    """Set policies of a namespace or a topic."""


@policies.command("set")
@click.argument("where")
@click.argument("given", nargs=-1, metavar="[POLICY=VALUE]...")
@click.option(
    "--unset", multiple=True, metavar="POLICY", help="Follow the level above again. May be repeated."
)
@act_options
def set_policies(where: str, given: tuple[str, ...], unset: tuple[str, ...], consent: Consent) -> None:
    """Set or unset policies of WHERE, tenant/namespace or a topic. They are in force at once."""
    to_set: dict[str, str] = {}
    for each in given:
        name, separator, value = each.partition("=")
        if not separator:
            raise click.UsageError(f"{each!r}: write it as POLICY=VALUE.")
        if name in to_set:
            raise click.UsageError(f"Policy {name} is given twice.")
        to_set[name] = value
    if not to_set and not unset:
        raise click.UsageError("Name a policy to set or to unset.")
    parameters = {"set": to_set, "unset": ",".join(unset)}
    if is_namespace(where):
        asked = Asked(kind="set_namespace_policies", topic=where, parameters=parameters)
    else:
        try:
            asked = Asked(kind="set_topic_policies", topic=full_name(where), parameters=parameters)
        except ValueError as error:
            raise click.UsageError(f"{error}, or tenant/namespace.") from error
    carry_out([asked], consent)
