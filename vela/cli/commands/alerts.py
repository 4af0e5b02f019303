"""`vela alerts`: the alerts that fire, those that have cleared, and the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final

import click

from vela.cli.acts.flow import answered
from vela.cli.console import console_api
from vela.cli.errors import CliError, Exit, as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.text.names import short_name
from vela.cli.text.numerals import ago, plural
from vela.cli.text.output import emit, facts, one_line, print_rich, table
from vela.cli.text.times import LENGTH, moment_of

__all__ = ["alerts"]

_MEASURES: Final = (
    "backlog", "age", "stuck", "behind", "no_consumer", "dead_letters", "redeliveries", "stored", "broker",
)  # fmt: skip
_SEVERITIES: Final = ("critical", "warning", "notice")

_RULE = click.argument("number", metavar="RULE", type=click.IntRange(min=1))
_MEMBERS: Final = {
    "limit": "threshold",
    "within": "within_ms",
    "lasts": "for_ms",
    "namespace": "namespaces",
    "topic": "topics",
    "subscription": "subscriptions",
    "severity": "severity",
    "webhook": "webhook_url",
    "email": "email",
}


@click.group(cls=OrderedGroup)
def alerts() -> None:
    """List alerts; list, create, change, silence, test and delete alert rules."""


def _rule_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that describe a rule. The command receives the given ones as `members`."""

    @click.option(
        "--limit",
        metavar="LIMIT",
        help="The rule fires above this value: a number; for age a LENGTH; for stored a size such as 10GB.",
    )
    @click.option(
        "--within",
        metavar="LENGTH",
        help="dead_letters only: the period in which new letters are counted, such as 10m.",
    )
    @click.option(
        "--for",
        "lasts",
        metavar="LENGTH",
        help="How long the value must be above the limit before the rule fires, and not above it before it clears.",
    )
    @click.option("--namespace", metavar="PATTERN", help="*, TENANT/* or TENANT/NAMESPACE.")
    @click.option("--topic", metavar="PATTERN", help="Local names of topics; * stands for anything.")
    @click.option("--subscription", metavar="PATTERN", help="Names of subscriptions; * stands for anything.")
    @click.option("--severity", type=click.Choice(_SEVERITIES), help="How bad it is.")
    @click.option("--webhook", metavar="URL", help="The URL that gets JSON by POST; empty for none.")
    @click.option("--email", metavar="ADDRESS", help="The address that gets an e-mail; empty for none.")
    @wraps(command)
    def describing(**given: Any) -> None:
        members = {member: given.pop(name) for name, member in _MEMBERS.items()}
        command(members={name: text for name, text in members.items() if text is not None}, **given)

    return describing


@alerts.command("firing")
@click.option(
    "--limit", "most", type=click.IntRange(min=0), default=50, show_default=True, help="0 lists all."
)
@json_option
def list_firing(most: int) -> None:
    """List the alerts that are firing, newest first."""
    _list("alerts/firing", most, "fires since", "fired_ms", "no alerts are firing")


@alerts.command("history")
@click.option(
    "--limit", "most", type=click.IntRange(min=0), default=50, show_default=True, help="0 lists all."
)
@json_option
def list_history(most: int) -> None:
    """List the alerts that have cleared in the last 30 days, the latest first."""
    _list("alerts/history", most, "cleared", "cleared_ms", "no alert has cleared in the last 30 days")


def _list(path: str, most: int, when: str, member: str, nothing: str) -> None:
    with console_api() as api:
        rows = list(api.rows(path, "alerts", most=most + 1 if most else 0))
    shown = rows[:most] if most else rows
    if as_json_is_asked():
        for row in shown:
            emit(row)
    elif shown:
        columns = ("rule", "severity", "subscription", "topic", "last value", when)
        cells = [
            (
                row["rule_name"],
                row["severity"],
                row["subscription_name"] or ("" if row["topic_name"] else "the broker"),
                short_name(row["topic_name"]),
                row["value_words"],
                f"{ago(row[member])} ago",
            )
            for row in shown
        ]
        print_rich(table(columns, cells, spare=("last value",), cut=("subscription", "topic")))
    else:
        say(nothing)
    if len(rows) > len(shown):
        say(f"there are more than {most}: --limit 0 lists all")


@alerts.command("list")
@json_option
def list_rules() -> None:
    """List all rules, sorted by name."""
    with console_api() as api:
        rows = api.get("alerts/rules")["rules"]
    if as_json_is_asked():
        for row in rows:
            emit(row)
    elif rows:
        cells = [
            (
                str(row["id"]),
                row["name"],
                _state(row),
                row["severity"],
                row["condition"],
                row["namespaces"],
                _told(row),
            )
            for row in rows
        ]
        columns = ("rule", "name", "state", "severity", "fires when", "where", "notifies")
        print_rich(table(columns, cells, right=("rule",), spare=("where", "notifies", "severity")))
    else:
        say("there is no rule yet; `vela alerts create` creates one")


@alerts.command()
@_RULE
@json_option
def show(number: int) -> None:
    """Show one rule, and whether its latest notification was sent."""
    with console_api() as api:
        _print(api.get(f"alerts/rules/{number}"))


@alerts.command()
@click.argument("name")
@click.argument("measure", type=click.Choice(_MEASURES), metavar="MEASURE")
@_rule_options
@json_option
def create(name: str, measure: str, members: Mapping[str, str]) -> None:
    """Create a rule. It fires when MEASURE stays above --limit, or when a condition such as stuck lasts.

    Without --for, the condition must last 5m. Without --namespace, the rule covers every namespace. Without --severity,
    the severity is warning.
    """
    with console_api() as api:
        _print(api.post("alerts/rules", {"name": name, "measure": measure, **members}).body)


@alerts.command()
@_RULE
@click.option("--name", help="Another name.")
@click.option("--measure", type=click.Choice(_MEASURES), help="Watch something else.")
@_rule_options
@json_option
def change(number: int, name: str | None, measure: str | None, members: Mapping[str, str]) -> None:
    """Change a rule. Options that you leave out keep their values.

    Alerts that fire under the old rule end without a notification.
    """
    named = {"name": name, "measure": measure}
    body = {**{each: text for each, text in named.items() if text is not None}, **members}
    if not body:
        raise click.UsageError("There is nothing to change: give at least one option.")
    with console_api() as api:
        _print(api.patch(f"alerts/rules/{number}", body).body)


@alerts.command()
@_RULE
@click.option(
    "--for",
    "length_ms",
    type=LENGTH,
    metavar="LENGTH",
    help="How long to silence the rule from now, such as 8h.",
)
@click.option("--end", is_flag=True, help="End the silence.")
@json_option
def silence(number: int, length_ms: int | None, end: bool) -> None:
    """Stop a rule's notifications for a while. Its alerts still fire and clear."""
    if end == (length_ms is not None):
        raise click.UsageError("Use either --for or --end.")
    with console_api() as api:
        _print(api.post(f"alerts/rules/{number}/silence", {"for_ms": length_ms or 0}).body)


@alerts.command("test")
@_RULE
@json_option
def send_test(number: int) -> None:
    """Send a notification that says that it is a test."""
    with console_api() as api:
        row = api.post(f"alerts/rules/{number}/test", {}).body
    if as_json_is_asked():
        emit(row)
    else:
        say(
            one_line(
                f"a test is on its way to {_told(row)}; `vela alerts show {number}` says whether it was sent"
            )
        )


@alerts.command()
@_RULE
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@json_option
def delete(number: int, yes: bool) -> None:
    """Delete a rule. Its history stays."""
    if as_json_is_asked() and not yes:
        raise click.UsageError("vela does not ask with --json: add --yes.")
    with console_api() as api:
        path = f"alerts/rules/{number}"
        if not yes:
            row = api.get(path)
            question = f"delete the rule {row['name']} ({row['condition']})? [y/N] "
            if answered(question, instead="add --yes").lower() not in ("y", "yes"):
                raise CliError("nothing was changed", Exit.REFUSED, code="NotAgreed")
        row = api.delete(path).body
    if as_json_is_asked():
        emit(row)
    else:
        click.echo(one_line(f"deleted the rule {row['name']}"))


def _print(row: dict[str, Any]) -> None:
    if as_json_is_asked():
        emit(row)
        return
    shown = {
        "rule": f"{row['id']}, {row['name']}",
        "state": _state(row),
        "fires when": row["condition"],
        "severity": row["severity"],
        "namespaces": row["namespaces"],
        "topics": row["topics"],
        "subscriptions": row["subscriptions"],
        "notifies": _told(row),
        "last notification": _notification(row),
        "evaluated": f"{ago(row['evaluated_ms'])} ago" if row["evaluated_ms"] else "not yet",
        "created by": row["who"],
    }
    print_rich(facts([(name, one_line(text)) for name, text in shown.items() if text]))


def _state(row: dict[str, Any]) -> str:
    """Return whether the rule fires, and until when it is silent."""
    fires = f"firing: {row['firing']:,}" if row["firing"] else "not firing"
    until = row["silent_until"]
    if until and datetime.fromisoformat(until) > datetime.now(UTC):
        return f"{fires}, silent until {moment_of(until)}"
    return fires


def _told(row: dict[str, Any]) -> str:
    whom = ["a webhook"] if row["has_webhook"] else []
    return " and ".join([*whom, row["email"]] if row["email"] else whom) or "nobody"


def _notification(row: dict[str, Any]) -> str:
    if not row["told_at"]:
        return ""
    if row["sent_at"]:
        return f"sent {moment_of(row['sent_at'])}"
    tried = f"after {plural(row['attempts'] or 0, 'attempt')}: {row['error']}" if row["error"] else ""
    return f"not sent yet {tried}".strip() if row["next_at"] else f"given up {tried}".strip()
