"""`vela policies`: the policies of a namespace or a topic."""

from __future__ import annotations

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out
from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.text.names import full_name, is_namespace, namespace_path, topic_path
from vela.cli.text.output import emit, one_line, print_rich, table

__all__ = ["policies"]


@click.group(cls=OrderedGroup)
def policies() -> None:
    """Show and set policies of a namespace or a topic."""


@policies.command()
@click.argument("where")
@click.option(
    "--set",
    "only_set",
    is_flag=True,
    help="Only policies that are set, on WHERE or on the namespace of a topic.",
)
@json_option
def show(where: str, only_set: bool) -> None:
    """Show the policies in force on WHERE (tenant/namespace or a topic), and where each is set."""
    with console_api() as api:
        found = api.get(
            f"{namespace_path(where) if is_namespace(where) else topic_path(_topic(where))}/policies"
        )
    rows = [row for row in found["policies"] if row["set_on"] or not only_set]
    if as_json_is_asked():
        emit({**found, "policies": rows})
    elif not rows:
        say("no policies are set")
    else:
        for sentence in found["words"]:
            click.echo(one_line(sentence))
        print_rich(
            table(
                ("policy", "value", "set on"),
                [(row["name"], row["words"], row["set_on"] or "broker default") for row in rows],
                right=("value",),
            )
        )


def _topic(where: str) -> str:
    try:
        return full_name(where)
    except ValueError as error:
        raise click.UsageError(f"{error}, or tenant/namespace.") from error


@policies.command("set")
@click.argument("where")
@click.argument("given", nargs=-1, metavar="[POLICY=VALUE]...")
@click.option(
    "--unset",
    multiple=True,
    metavar="POLICY",
    help="Remove a policy, so that the level above applies again. May be repeated.",
)
@act_options
def set_policies(where: str, given: tuple[str, ...], unset: tuple[str, ...], consent: Consent) -> None:
    """Set or unset policies of WHERE (tenant/namespace or a topic). Changes take effect at once.

    Write lengths of time as 90s, 1h or 7d and sizes as 512MiB or 10GB.
    """
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
        asked = Asked(kind="set_topic_policies", topic=_topic(where), parameters=parameters)
    carry_out(asked, consent)
