"""Plan an act, show the plan, ask the user, apply the act and show the receipt, in the same way for every act."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

import click

from vela.cli.acts.partitions import done_partitions, planned_partitions
from vela.cli.acts.progress import named_if_unanswered
from vela.cli.acts.words import effect_words, headline, plan_facts, receipt_words
from vela.cli.console import Answer, ConsoleApi, console_api
from vela.cli.errors import CliError, Exit, as_json_is_asked, say
from vela.cli.options import FiniteRange, json_option
from vela.cli.start import MESSAGE_ID
from vela.cli.text.names import short_name
from vela.cli.text.output import emit, one_line, print_rich, table
from vela.cli.text.times import moment_of

__all__ = [
    "Asked",
    "Consent",
    "act_options",
    "answered",
    "carry_out",
    "partitions_option",
    "settle",
    "show_plan",
    "show_receipt",
]

# To apply an act that redelivers more messages than this, the user must type a name, as in the console.
_TYPED_ABOVE_MESSAGES: Final = 10_000
_MOST_DRIFT_MESSAGES: Final = 10**15  # the largest number that the API accepts
_SWITCH: Final = re.compile(r"\bset (?P<switch>\w+) to true\b")  # how the broker names a parameter to set
_INSTEAD: Final = "add --yes to apply the act, or --plan-only to see its plan"

Act = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One act to plan."""

    kind: str
    topic: str  # full name, or tenant/namespace for an act on a namespace
    subscription: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What the user agrees to, why, and how long the command waits for a broker."""

    yes: bool
    plan_only: bool
    reason: str
    wait_s: float
    allowed_drift: int | None = None  # None: the drift that each plan allows


def act_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every act, from `--yes` to `--json`.

    The command receives the values of all options except `--json` as `consent`.
    """

    @click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
    @click.option("--plan-only", is_flag=True, help="Show the plan and stop.")
    @click.option("--reason", default="", help="A reason, stored in the log of acts.")
    @click.option(
        "--allow-drift",
        type=click.IntRange(min=0, max=_MOST_DRIFT_MESSAGES),
        metavar="N",
        help="Apply even if up to N more messages than planned are delivered again or lost; 0 allows none.",
    )
    @click.option(
        "--wait",
        type=FiniteRange(min=0),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for a broker to answer.",
    )
    @json_option
    @wraps(command)
    def consenting(
        yes: bool, plan_only: bool, reason: str, allow_drift: int | None, wait: float, **given: Any
    ) -> None:
        if yes and plan_only:
            raise click.UsageError("Use either --yes or --plan-only, not both.")
        if plan_only and allow_drift is not None:
            raise click.UsageError(
                "--allow-drift counts only when the act is applied: leave it out, or leave out --plan-only."
            )
        if as_json_is_asked() and not (yes or plan_only):
            raise click.UsageError("vela does not ask with --json: add --yes or --plan-only.")
        consent = Consent(yes=yes, plan_only=plan_only, reason=reason, wait_s=wait, allowed_drift=allow_drift)
        command(consent=consent, **given)

    return consenting


def partitions_option(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--partition`. The command receives `partitions`, to add to the act's parameters."""

    @click.option(
        "--partition",
        metavar="N,N-N",
        help="On a partitioned topic: act on these partitions only, such as 0,2,5-7. Default: all.",
    )
    @wraps(command)
    def choosing(partition: str | None, **given: Any) -> None:
        command(partitions={} if partition is None else {"partitions": partition}, **given)

    return choosing


def carry_out(asked: Asked, consent: Consent) -> Act | None:
    """Plan an act, show the plan and apply it if the user agrees.

    Return the applied act, or None with --plan-only. Raises CliError if the user does not agree, if the act is refused
    or fails, or if no broker answers in time.
    """
    with console_api() as api:
        try:
            return settle(api, lambda: _plan(api, asked, consent), consent)
        except CliError as error:
            words = _SWITCH.sub(_own_switch, _with_typed_id(error.message, asked.parameters))
            raise error.worded(words, Exit(error.exit_code), code=error.code) from error


def _with_typed_id(words: str, parameters: Mapping[str, Any]) -> str:
    """Write the message id as the operator gave it to the command's option, without the partition -1."""
    if not any(each.type is MESSAGE_ID for each in click.get_current_context().command.params):
        return words
    given = str(parameters.get("id", ""))
    return words.replace(given, given.replace(":-1:", ":")) if given else words


def _own_switch(found: re.Match[str]) -> str:
    """Return how to set the switch that the broker names: by an option of this command, if there is one."""
    options = (
        each.opts[0] for each in click.get_current_context().command.params if each.name == found["switch"]
    )
    return next((f"add {option}" for option in options if option.startswith("-")), found[0])


def settle(
    api: ConsoleApi, plan: Callable[[], Answer], consent: Consent, *, is_own: bool = True
) -> Act | None:
    """Do what `carry_out` does with the act that `plan` returns, such as an undo or an act planned earlier.

    `is_own`: this command made the plan. If such a plan needs a second person, raises CliError instead of applying it.
    """
    planned = api.settled(plan(), wait_s=consent.wait_s)
    as_json = as_json_is_asked()
    if not as_json:
        show_plan(planned)
    if consent.plan_only:
        if as_json:
            emit(planned)
        else:
            say(f"nothing was changed; `vela acts apply {planned['id']}` applies it")
        return None
    if is_own and planned["needs_second_person"]:
        raise CliError(
            f"act {planned['id']} waits for a second person (policy second_person): another user applies it with"
            f" `vela acts apply {planned['id']}` or on its page, /acts/{planned['id']}, or refuses it",
            Exit.REFUSED,
            code="SecondPersonNeeded",
            act=planned["id"],
        )
    if not consent.yes:
        _require_agreement(planned, consent.allowed_drift)
    body: dict[str, Any] = {"reason": consent.reason} if consent.reason else {}
    if consent.allowed_drift is not None:
        body["allowed_drift_messages"] = consent.allowed_drift
    with named_if_unanswered(planned["id"]):
        applied = api.settled(api.post(f"acts/{planned['id']}/apply", body), wait_s=consent.wait_s)
    if as_json:
        emit(applied)
    else:
        show_receipt(applied)
    return applied


def _plan(api: ConsoleApi, asked: Asked, consent: Consent) -> Answer:
    body: dict[str, Any] = {"kind": asked.kind, "topic": asked.topic, "parameters": dict(asked.parameters)}
    if asked.subscription:
        body["subscription"] = asked.subscription
    if consent.reason:
        body["reason"] = consent.reason
    return api.post("acts", body)


def show_plan(act: Act) -> None:
    """Print what the act would do, in words and as a table."""
    plan = act["plan"] or {}
    click.echo(one_line(f"plan of {headline(act)}"))
    for sentence in effect_words(plan):
        click.echo(one_line(f"  {sentence}"))
    if drift := plan.get("drift"):
        click.echo(one_line(f"  {drift['words']}"))
    for note in plan.get("notes", ()):
        click.echo(one_line(f"  note: {note}"))
    if rows := plan_facts(act):
        print_rich(table(("", "now", "after it"), rows))
    _show_partitions(planned_partitions(plan))


def show_receipt(act: Act) -> None:
    """Print what the act did, and how to undo it, or which act undid it."""
    click.echo(one_line(f"applied {headline(act)}"))
    for sentence in receipt_words(act):
        click.echo(one_line(f"  {sentence}"))
    _show_partitions(done_partitions(act))
    if act["undone_by"]:
        click.echo(f"  act {act['undone_by']} undid it: `vela acts show {act['undone_by']}`")
    elif act["undoable"]:
        click.echo(f"  to undo it, run `vela acts undo {act['id']}` before {moment_of(act['undo_until'])}")


def _show_partitions(rows: Sequence[tuple[str, ...]]) -> None:
    """Print the rows as a table. The first row is the heading. Print nothing if there are no rows."""
    if rows:
        print_rich(table(rows[0], rows[1:], right=rows[0]))


def _require_agreement(planned: Act, allowed_drift: int | None) -> None:
    plan = planned["plan"] or {}
    skipped = sum(int(plan.get(lost) or 0) for lost in ("skipped_messages", "lost_messages"))
    replayed = int(plan.get("replayed_messages") or 0)
    drift = plan.get("allowed_drift_messages", 0) if allowed_drift is None else allowed_drift
    if skipped or replayed + drift > _TYPED_ABOVE_MESSAGES:
        name = planned["subscription"] or short_name(planned["topic"])
        agreed = answered(f"type {name} to apply it, anything else to stop: ") == name
    else:
        agreed = answered("apply it? [y/N] ").lower() in ("y", "yes")
    if not agreed:
        raise CliError("nothing was changed", Exit.REFUSED, code="NotAgreed")


def answered(question: str, *, instead: str = _INSTEAD) -> str:
    """Ask on standard error, so that the question stays out of the output. Return the line that the user typed.

    Raises CliError if standard input has ended. Its message tells the user to do `instead`.
    """
    sys.stdout.flush()
    sys.stderr.write(one_line(question))
    sys.stderr.flush()
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if not line:
        sys.stderr.write("\n")
        raise CliError(
            f"vela cannot ask, because standard input has ended: {instead}",
            Exit.USAGE,
            code="NoAnswer",
        )
    return line.strip()
