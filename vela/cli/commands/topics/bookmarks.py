"""`vela bookmarks`: named places in a topic."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out, partitions_option
from vela.cli.acts.place import place_options
from vela.cli.commands.topics.topics import bookmark_table
from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.parameters import BOOKMARK, TOPIC
from vela.cli.text.names import topic_path
from vela.cli.text.output import emit, print_rich
from vela.cli.text.times import LENGTH

__all__ = ["bookmarks"]


@click.group(cls=OrderedGroup)
def bookmarks() -> None:
    """List, create and delete named places in a topic."""


@bookmarks.command("list")
@click.argument("topic", type=TOPIC)
@json_option
def list_bookmarks(topic: str) -> None:
    """List the bookmarks of a topic."""
    with console_api() as api:
        rows = api.get(topic_path(topic))["bookmarks"]
    if as_json_is_asked():
        for row in rows:
            emit(row)
    elif rows:
        print_rich(bookmark_table(rows))
    else:
        say("there are no bookmarks")


@bookmarks.command()
@click.argument("topic", type=TOPIC)
@click.argument("name", type=BOOKMARK)
@place_options(default="latest", bookmark=False)
@click.option(
    "--keep",
    type=LENGTH,
    metavar="LENGTH",
    help="How long to pin the messages after the bookmark, more than 0. Default: 7d.",
)
@click.option("--keep-until-deleted", is_flag=True, help="Pin the messages until the bookmark is deleted.")
@partitions_option
@act_options
def create(
    topic: str,
    name: str,
    place: dict[str, Any],
    keep: int | None,
    keep_until_deleted: bool,
    partitions: dict[str, str],
    consent: Consent,
) -> None:
    """Name a place in a topic, so that you can reset cursors to it later. The bookmark pins the messages after it."""
    if keep is not None and keep_until_deleted:
        raise click.UsageError("Use either --keep or --keep-until-deleted, not both.")
    if keep == 0:
        raise click.UsageError(
            "--keep 0 pins nothing. To pin the messages until the bookmark is deleted, use --keep-until-deleted."
        )
    parameters = {"name": name, **place, **partitions}
    if keep is not None or keep_until_deleted:
        parameters["keep_ms"] = keep or 0
    carry_out(Asked(kind="create_bookmark", topic=topic, parameters=parameters), consent)


@bookmarks.command()
@click.argument("topic", type=TOPIC)
@click.argument("name")
@partitions_option
@act_options
def delete(topic: str, name: str, partitions: dict[str, str], consent: Consent) -> None:
    """Delete a bookmark. The topic's retention applies again to the messages that it pinned."""
    carry_out(Asked(kind="delete_bookmark", topic=topic, parameters={"name": name, **partitions}), consent)
