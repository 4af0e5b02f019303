"""`vela acts`: the log, as a list or a file, and acts by their number."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out, settle, show_plan, show_receipt
from vela.cli.acts.words import asked_words, headline
from vela.cli.console import Answer, ConsoleApi, console_api
from vela.cli.errors import CliError, Exit, as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.text.names import full_name, is_namespace, short_name
from vela.cli.text.output import emit, facts, one_line, print_rich, table
from vela.cli.text.times import moment_of

__all__ = ["acts"]

_STATES = (
    "plan_requested", "planned", "apply_requested", "applying", "applied", "refused", "failed", "expired", "client",
)  # fmt: skip


@click.group(cls=OrderedGroup)
def acts() -> None:
    """List, export, show, plan, apply, refuse and undo acts."""


@acts.command("list")
@click.option(
    "--search", metavar="TEXT", default="", help="Part of the name of a topic, a subscription or a user."
)
@click.option("--kind", default="", help="Only acts of this kind, for example reset or skip.")
@click.option("--state", type=click.Choice(_STATES), help="Only acts in this state.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of acts to list; 0 lists all.",
)
@json_option
def list_acts(search: str, kind: str, state: str | None, limit: int) -> None:
    """List the log of acts, newest first."""
    with console_api() as api:
        rows = list(_log(api, limit, q=search, kind=kind, state=state or ""))
    if as_json_is_asked():
        for row in rows:
            emit(row)
    elif rows:
        print_rich(
            table(
                ("act", "when", "state", "what", "where", "who"),
                [
                    (
                        str(row["id"]),
                        moment_of(row["created_at"]),
                        f"undone by {row['undone_by_id']}" if row["undone_by_id"] else row["state"],
                        _words(row),
                        _where(row),
                        row["who"],
                    )
                    for row in rows
                ],
                right=("act",),
                cut=("what", "where", "who"),
            )
        )
    else:
        say("no act matches" if search or kind or state else "there are no acts yet")


@acts.command()
@click.option(
    "--search", metavar="TEXT", default="", help="Part of the name of a topic, a subscription or a user."
)
@click.option("--kind", default="", help="Only acts of this kind, for example reset or skip.")
@click.option("--state", type=click.Choice(_STATES), help="Only acts in this state.")
@click.option(
    "--before",
    metavar="ACT",
    type=click.IntRange(min=1),
    help="Only acts before this one, to continue an export that stopped at its size limit.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("ndjson", "csv")),
    default="ndjson",
    show_default=True,
    help="One JSON object per line, or CSV for a spreadsheet.",
)
@json_option
def export(search: str, kind: str, state: str | None, before: int | None, form: str) -> None:
    """Write the log of acts to standard output, newest first. The last line says whether that is all.

    Times are UTC. In each act, role is the role that this kind of act requires, and plan and result contain only
    numbers.
    """
    if form == "csv" and as_json_is_asked():
        raise click.UsageError("Use either --json or --format csv, not both.")
    out = sys.stdout.buffer
    with console_api() as api:
        for piece in api.download(
            "acts/export", q=search, kind=kind, state=state or "", before=before, format=form
        ):
            out.write(piece)
    out.flush()


def _log(api: ConsoleApi, limit: int, **query: str) -> Iterator[dict[str, Any]]:
    before: int | None = None
    shown = 0
    while True:
        page = api.get("acts", before=before, **query)
        for row in page["acts"]:
            if limit and shown >= limit:
                return
            shown += 1
            yield row
        before = page["next_before"]
        if before is None:
            return


def _words(row: dict[str, Any]) -> str:
    return asked_words({**row, "undo_of": row["undo_of_id"]})


def _where(row: dict[str, Any]) -> str:
    topic = short_name(row["topic_name"]) if "://" in row["topic_name"] else row["topic_name"]
    return f"{row['subscription_name']} on {topic}" if row["subscription_name"] else topic


@acts.command()
@click.argument("act_id", metavar="ACT", type=click.IntRange(min=1))
@json_option
def show(act_id: int) -> None:
    """Show one act: what was requested, planned and done."""
    with console_api() as api:
        act = api.get(f"acts/{act_id}")
    if as_json_is_asked():
        emit(act)
        return
    why = "refused because" if act["state"] == "refused" else "error"
    print_rich(
        facts(
            [
                ("state", act["state"]),
                ("by", f"{act['who']}, {act['origin']}"),
                *((("planned by", act["planned_by"]),) if act["planned_by"] != act["who"] else ()),
                ("when", moment_of(act["created_at"])),
                *((("reason", act["reason"]),) if act["reason"] else ()),
                *(((why, act["error"]),) if act["error"] else ()),
                *((("new plan", f"act {act['new_plan']}"),) if act["new_plan"] else ()),
                *((("progress", json.dumps(act["progress"])),) if act["progress"] else ()),
            ]
        )
    )
    if act["state"] == "applied":
        show_receipt(act)
    elif act["plan"]:
        show_plan(act)
    else:
        click.echo(one_line(headline(act)))


@acts.command()
@click.argument("kind")
@click.argument("where")
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--subscription", default="", help="The subscription, for kinds of acts that need one.")
@act_options
def plan(kind: str, where: str, parameters: tuple[str, ...], subscription: str, consent: Consent) -> None:
    """Plan an act of any KIND on WHERE. docs/reference/acts.md lists kinds and parameters.

    WHERE is a topic, or tenant/namespace for acts on a namespace. Numbers, true, false and other JSON are read as JSON;
    everything else is text.
    """
    given: dict[str, Any] = {}
    for each in parameters:
        name, separator, value = each.partition("=")
        if not separator:
            raise click.UsageError(f"{each!r}: write it as NAME=VALUE.")
        given[name] = _value(value)
    try:
        topic = where if is_namespace(where) else full_name(where)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    carry_out(Asked(kind=kind, topic=topic, subscription=subscription, parameters=given), consent)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) else value


@acts.command()
@click.argument("act_id", metavar="ACT", type=click.IntRange(min=1))
@act_options
def apply(act_id: int, consent: Consent) -> None:
    """Apply an act that is planned."""
    with console_api() as api:
        act = api.get(f"acts/{act_id}")
        if act["state"] not in ("planned", "plan_requested"):
            raise CliError(
                f"act {act_id} is {act['state']}: only a planned act can be applied",
                Exit.REFUSED,
                code="WrongState",
            )
        settle(api, lambda: Answer(200, act, ""), consent, is_own=False)


@acts.command()
@click.argument("act_id", metavar="ACT", type=click.IntRange(min=1))
@click.option("--reason", default="", help="Why you refuse it, stored in the log of acts.")
@json_option
def refuse(act_id: int, reason: str) -> None:
    """Refuse an act that is planned, or withdraw your own, so that nobody can apply it."""
    with console_api() as api:
        act = api.post(f"acts/{act_id}/refuse", {"reason": reason}).body
    if as_json_is_asked():
        emit(act)
    else:
        click.echo(one_line(f"act {act_id}: {act['error']}"))


@acts.command()
@click.argument("act_id", metavar="ACT", type=click.IntRange(min=1))
@act_options
def undo(act_id: int, consent: Consent) -> None:
    """Undo the latest act on a cursor. Messages that were acknowledged since then stay acknowledged."""
    with console_api() as api:
        body = {"reason": consent.reason} if consent.reason else {}
        settle(api, lambda: api.post(f"acts/{act_id}/undo", body), consent)
