"""Plan an act, show the plan, ask, apply it and show the receipt: the same for every act."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Final

import click

from vela.cli.acts.progress import named_partition, said_how_far
from vela.cli.acts.words import effect_words, headline, plan_facts, receipt_words
from vela.cli.console import Answer, ConsoleApi, console_api
from vela.cli.errors import CliError, Exit, as_json_is_asked, say
from vela.cli.options import FiniteRange, json_option
from vela.cli.text.names import short_name, topic_path
from vela.cli.text.output import emit, one_line, print_rich, table
from vela.cli.text.times import moment_of

__all__ = ["Asked", "Consent", "act_options", "carry_out", "settle"]

TYPED_ABOVE: Final = 10_000  # messages delivered again; above it the user types a name, as in the console
MOST_DRIFT: Final = 10**15

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
    """How far to go, and why."""

    yes: bool
    plan_only: bool
    reason: str
    wait_s: float
    allowed_drift: int | None = None  # None: as much as each plan allows


def act_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--yes`, `--plan-only`, `--reason`, `--allow-drift`, `--wait`, `--json`: it receives `consent`."""

    @click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
    @click.option("--plan-only", is_flag=True, help="Show the plan and stop.")
    @click.option("--reason", default="", help="A reason, stored in the log of acts.")
    @click.option(
        "--allow-drift",
        type=click.IntRange(min=0, max=MOST_DRIFT),
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
            raise click.UsageError("--allow-drift applies the act: leave out --plan-only.")
        if as_json_is_asked() and not (yes or plan_only):
            raise click.UsageError("vela does not ask with --json: add --yes or --plan-only.")
        consent = Consent(yes=yes, plan_only=plan_only, reason=reason, wait_s=wait, allowed_drift=allow_drift)
        command(consent=consent, **given)

    return consenting


def carry_out(asked: Sequence[Asked], consent: Consent) -> None:
    """Plan all acts, show the plans, and apply them one by one if the user agrees. Raises CliError."""
    with console_api() as api:
        plans = [partial(_plan, api, each, consent) for each in asked]
        settle(api, plans, consent, topics=[each.topic for each in asked])


def settle(
    api: ConsoleApi, plans: Sequence[Callable[[], Answer]], consent: Consent, *, topics: Sequence[str] = ("",)
) -> None:
    """Do the same with plans that `plans` makes: the plan of an undo, or an existing one. Raises CliError."""
    planned: list[Act] = []
    for plan, topic in zip(plans, topics, strict=True):
        with named_partition(topic if len(plans) > 1 else ""):
            planned.append(api.settled(plan(), wait_s=consent.wait_s))
    as_json = as_json_is_asked()
    if not as_json:
        show_plans(planned)
    if consent.plan_only:
        if as_json:
            for act in planned:
                emit(act)
        else:
            say(f"nothing was changed; `vela acts apply {planned[0]['id']}` applies it" if len(planned) == 1
                else "nothing was changed")  # fmt: skip
        return
    if not consent.yes:
        _require_agreement(planned, consent.allowed_drift)
    body: dict[str, Any] = {"reason": consent.reason} if consent.reason else {}
    if consent.allowed_drift is not None:
        body["allowed_drift_messages"] = consent.allowed_drift
    for at, act in enumerate(planned):
        with said_how_far(planned, at):
            applied = api.settled(api.post(f"acts/{act['id']}/apply", body), wait_s=consent.wait_s)
        if as_json:
            emit(applied)
        else:
            show_receipt(applied)


def _plan(api: ConsoleApi, asked: Asked, consent: Consent) -> Answer:
    body: dict[str, Any] = {"kind": asked.kind, "topic": asked.topic, "parameters": dict(asked.parameters)}
    if asked.subscription:
        body["subscription"] = asked.subscription
    if consent.reason:
        body["reason"] = consent.reason
    try:
        return api.post("acts", body)
    except CliError as error:
        if error.exit_code == Exit.NOTHING and asked.subscription:
            _say_if_partitioned(api, asked)
        raise


def _say_if_partitioned(api: ConsoleApi, asked: Asked) -> None:
    """Raise CliError if the topic is partitioned. Such a topic has no cursors; its partitions have."""
    try:
        partitions = api.get(topic_path(asked.topic))["partitions"]
    except CliError:
        return
    if partitions:
        name = short_name(asked.topic)
        raise CliError(
            f"{name} is partitioned, and each partition has its own cursors: name one of {name}-partition-0 to"
            f" {name}-partition-{partitions - 1}, or add --all-partitions",
            Exit.NOTHING,
            code="NothingToActOn",
        )


def show_plans(planned: Sequence[Act]) -> None:
    """Print what the acts would do, in words and as a table."""
    for act in planned:
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


def show_receipt(act: Act) -> None:
    """Print what the act did, and how to undo it or which act has undone it."""
    click.echo(one_line(f"applied {headline(act)}"))
    for sentence in receipt_words(act):
        click.echo(one_line(f"  {sentence}"))
    if act["undone_by"]:
        click.echo(f"  act {act['undone_by']} undid it: `vela acts show {act['undone_by']}`")
    elif act["undoable"]:
        click.echo(f"  to undo it, run `vela acts undo {act['id']}` before {moment_of(act['undo_until'])}")


def _require_agreement(planned: Sequence[Act], allowed_drift: int | None) -> None:
    plans = [act["plan"] or {} for act in planned]
    skipped = sum(int(plan.get("skipped_messages") or 0) for plan in plans)
    replayed = sum(int(plan.get("replayed_messages") or 0) for plan in plans)
    drift = [
        plan.get("allowed_drift_messages", 0) if allowed_drift is None else allowed_drift for plan in plans
    ]
    what = "it" if len(planned) == 1 else f"these {len(planned)}"
    if skipped or replayed + sum(drift) > TYPED_ABOVE:
        name = planned[0]["subscription"] or short_name(planned[0]["topic"])
        agreed = _answer(f"type {name} to apply {what}, anything else to stop: ") == name
    else:
        agreed = _answer(f"apply {what}? [y/N] ").lower() in ("y", "yes")
    if not agreed:
        raise CliError("nothing was changed", Exit.REFUSED, code="NotAgreed")


def _answer(question: str) -> str:
    """Read a line of standard input. The question goes to standard error, since it is not output."""
    sys.stdout.flush()
    sys.stderr.write(one_line(question))
    sys.stderr.flush()
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if not line:
        sys.stderr.write("\n")
        raise CliError(
            "there is no terminal to ask on: add --yes to apply the act, or --plan-only to see its plan",
            Exit.USAGE,
            code="NoAnswer",
        )
    return line.strip()
