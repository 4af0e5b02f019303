"""`vela profile`: store addresses and credentials under a name."""

from __future__ import annotations

import json

import click

from vela.cli.errors import CliError, Exit, as_json_is_asked
from vela.cli.options import json_option
from vela.cli.profiles.file import NAMES, add_profile, profiles, remove_profile, use_profile, used_profile

__all__ = ["profile"]


@click.group()
def profile() -> None:
    """Store addresses and credentials under a name.

    \b
        vela --url wss://vela.example.org --token-file shop.token profile add shop
        vela profile use shop
        vela consume shop/eu/orders billing

    `--profile NAME` chooses a profile for one command, `vela profile use` for all that follow.
    """


@profile.command()
@click.argument("name")
@json_option
@click.pass_context
def add(context: click.Context, /, name: str) -> None:
    """Store the options that stand before `profile` under a name.

    Options from the environment are not stored, and neither are --token and passwords: store a token in a file.
    """
    from click.core import ParameterSource

    root = context.find_root()
    typed = {
        each: str(root.params[each])
        for each in (*NAMES, "token")
        if root.get_parameter_source(each) is ParameterSource.COMMANDLINE
    }
    if "token" in typed:
        raise CliError(
            "a profile stores no token, only the name of a file with one: give --token-file", Exit.USAGE
        )
    if not typed:
        raise CliError(
            "give the profile's options before the word profile: vela --url wss://… profile add NAME",
            Exit.USAGE,
        )
    add_profile(name, typed)
    _report(name, f"{name} is a profile now; use it with `vela profile use {name}`")


@profile.command("list")
@json_option
def list_() -> None:
    """List all profiles. The one in use is marked."""
    used = used_profile()
    for name, fields in sorted(profiles().items()):
        if as_json_is_asked():
            click.echo(json.dumps({"name": name, "is_used": name == used, **fields}))
        else:
            click.echo(f"{'*' if name == used else ' '} {name}  {fields.get('url', '')}".rstrip())


@profile.command()
@click.argument("name", required=False, default="")
@json_option
def use(name: str) -> None:
    """Use a profile in every command from now on. Without NAME, use no profile.

    Options and environment variables override the profile.
    """
    use_profile(name)
    _report(name, f"commands use the profile {name} now" if name else "commands use no profile now")


@profile.command()
@click.argument("name")
@json_option
def remove(name: str) -> None:
    """Delete a profile. The files that it names stay."""
    remove_profile(name)
    _report(name, f"the profile {name} is deleted")


def _report(name: str, text: str) -> None:
    click.echo(json.dumps({"name": name}) if as_json_is_asked() else text)
