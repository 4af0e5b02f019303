"""`vela compact`, and `vela topics compaction`, which shows how far a topic is compacted."""

from __future__ import annotations

from typing import Any

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out
from vela.cli.console import console_api
from vela.cli.errors import as_json_is_asked
from vela.cli.options import json_option
from vela.cli.parameters import TOPIC
from vela.cli.text.names import short_name, topic_path
from vela.cli.text.numerals import UNKNOWN, count, size
from vela.cli.text.output import emit, print_rich, table
from vela.cli.text.times import moment_of

__all__ = ["compact", "compaction"]

_COLUMNS = ("topic", "latest run", "kept", "size", "not compacted yet", "up to", "last success", "error")
_NUMBERS = ("kept", "size", "not compacted yet")
_STATES = {"NOT_RUN": "not run", "RUNNING": "running", "SUCCESS": "succeeded", "ERROR": "failed"}


@click.command()
@click.option("--delete", is_flag=True, help="Delete what compaction keeps. The log stays.")
@click.argument("topic", type=TOPIC)
@act_options
def compact(topic: str, delete: bool, consent: Consent) -> None:
    """Keep the latest message of each key for readers of the compacted topic.

    The log does not change. Each partition of a partitioned topic is compacted separately.
    """
    done = carry_out(Asked(kind="delete_compaction" if delete else "compact", topic=topic), consent)
    if done is not None and not as_json_is_asked():
        _show(topic)


@click.command()
@click.argument("topic", type=TOPIC)
@json_option
def compaction(topic: str) -> None:
    """Show how far a topic is compacted, or each of its partitions."""
    _show(topic)


def _show(topic: str) -> None:
    with console_api() as api:
        found = api.get(f"{topic_path(topic)}/compaction")
    if as_json_is_asked():
        emit(found)
    else:
        print_rich(table(_COLUMNS, [_cells(row) for row in found["compactions"]], right=_NUMBERS))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        short_name(row["topic"]),
        _STATES[row["state"]],
        count(row["kept_messages"]),
        size(row["kept_bytes"]),
        count(row["backlog_messages"]),
        row["horizon"] or UNKNOWN,
        moment_of(row["succeeded_at"]) if row["succeeded_at"] else UNKNOWN,
        row["last_error"],
    )
