"""`vela pipeline`: jobs that a worker runs over the stored messages of a topic."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from vela.cli.acts.flow import Asked, Consent, act_options, carry_out
from vela.cli.console import ConsoleApi, console_api
from vela.cli.errors import CliError, Exit, as_json_is_asked, say
from vela.cli.lazy import OrderedGroup
from vela.cli.options import json_option
from vela.cli.parameters import TOPIC
from vela.cli.text.names import short_name
from vela.cli.text.numerals import count, plural
from vela.cli.text.output import emit, facts, one_line, print_rich, table
from vela.cli.text.times import moment_of

__all__ = ["pipeline"]

_POLL_S: Final = 0.5
_STATES: Final = ("waiting", "running", "done", "failed", "cancelled")
_MOST_MINUTES: Final = 44_640


class _Setting(click.ParamType[tuple[str, str]]):
    """NAME=VALUE; the value may be empty and may contain `=`."""

    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, separator, text = str(value).partition("=")
        if not separator or not name:
            self.fail(f"{value!r} is not NAME=VALUE.", param, ctx)
        return name, text


_SET = click.option(
    "--set",
    "settings",
    type=_Setting(),
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the job; give one --set for each. `vela pipeline jobs` lists them.",
)
_FOLLOW = click.option("--follow", is_flag=True, help="Wait until the run ends, and fail if it fails.")


@click.group(cls=OrderedGroup)
def pipeline() -> None:
    """Run, follow, cancel and schedule jobs over stored messages."""


@pipeline.command()
@json_option
def jobs() -> None:
    """List the jobs with their options."""
    with console_api() as api:
        found = api.get("pipeline/jobs")["jobs"]
    for job in found:
        if as_json_is_asked():
            emit(job)
            continue
        click.echo(f"{job['name']}: {job['summary']}")
        rows = [(option["name"], _default(option), option["doc"]) for option in job["options"]]
        print_rich(table(("option", "default", "meaning"), rows))


def _default(option: dict[str, Any]) -> str:
    if option["is_required"]:
        return "required"
    return ", ".join(option["choices"]) or str(option["default"])


@pipeline.command()
@click.argument("job")
@click.argument("topic", type=TOPIC)
@_SET
@_FOLLOW
@act_options
def run(job: str, topic: str, settings: tuple[tuple[str, str], ...], follow: bool, consent: Consent) -> None:
    """Run a job over a topic: a worker starts it within seconds."""
    parameters = {"job": job, "options": _options(settings)}
    _requested(Asked(kind="run_job", topic=topic, parameters=parameters), consent, follow=follow)


@pipeline.command("continue")
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@_FOLLOW
@act_options
def continue_run(number: int, follow: bool, consent: Consent) -> None:
    """Continue a run that failed or was cancelled.

    On a topic without deduplication, messages that the run has published come twice.
    """
    _requested(_of_run("continue_job", number), consent, follow=follow)


@pipeline.command()
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@act_options
def cancel(number: int, consent: Consent) -> None:
    """End a run that is waiting or running."""
    carry_out(_of_run("cancel_job", number), consent)


@pipeline.command("list")
@click.option("--job", default="", metavar="JOB", help="Only runs of this job.")
@click.option("--state", type=click.Choice(_STATES), help="Only runs in this state.")
@click.option("--topic", type=TOPIC, default=None, metavar="TOPIC", help="Only runs over this topic.")
@json_option
def list_runs(job: str, state: str | None, topic: str | None) -> None:
    """List the latest 50 runs."""
    with console_api() as api:
        rows = api.get("pipeline/runs", job=job, state=state or "", topic=topic or "")["runs"]
    if as_json_is_asked():
        for row in rows:
            emit(row)
    elif rows:
        cells = [
            (
                str(row["id"]),
                row["job"],
                short_name(row["topic_name"]),
                row["state"],
                one_line(row["error"] or _progress(row)),
                moment_of(row["created_at"]),
            )
            for row in rows
        ]
        columns = ("run", "job", "topic", "state", "how far", "requested")
        print_rich(table(columns, cells, right=("run",), spare=("requested",)))
    else:
        say("no run matches" if job or state or topic else "no job has run yet")


@pipeline.command()
@click.argument("number", metavar="RUN", type=click.IntRange(min=1))
@click.option("--log", is_flag=True, help="Also print the end of the run's log.")
@json_option
def show(number: int, log: bool) -> None:
    """Show one run: its options, its progress, and its result or why it failed."""
    with console_api() as api:
        row = api.get(f"pipeline/runs/{number}")
    if as_json_is_asked():
        emit(row)
        return
    shown = {
        "job": row["job"],
        "topic": row["topic_name"],
        **_given(row),
        "state": row["state"],
        "how far": _progress(row),
        "result": _words(row),
        "error": row["error"],
        "worker": row["worker"],
        "requested": f"{moment_of(row['created_at'])} by {row['who']}",
        "ended": moment_of(row["ended_at"]) if row["ended_at"] else "",
    }
    print_rich(facts([(name, one_line(text)) for name, text in shown.items() if text]))
    if log:
        for line in row["log"].splitlines():
            click.echo(one_line(line))


@pipeline.command()
@click.argument("job")
@click.argument("topic", type=TOPIC)
@click.option(
    "--every",
    "every_minutes",
    type=click.IntRange(1, _MOST_MINUTES),
    required=True,
    metavar="MINUTES",
    help="Minutes from run to run.",
)
@_SET
@act_options
def schedule(
    job: str, topic: str, every_minutes: int, settings: tuple[tuple[str, str], ...], consent: Consent
) -> None:
    """Repeat a job over a topic. The first run starts now."""
    parameters = {"job": job, "options": _options(settings), "every_minutes": every_minutes}
    carry_out(Asked(kind="schedule_job", topic=topic, parameters=parameters), consent)


@pipeline.command()
@json_option
def schedules() -> None:
    """List the schedules, the next one first."""
    with console_api() as api:
        rows = api.get("pipeline/schedules")["schedules"]
    if as_json_is_asked():
        for row in rows:
            emit(row)
    elif rows:
        cells = [
            (
                str(row["id"]),
                row["job"],
                " → ".join(map(short_name, row["subject"].split(" → "))),
                ", ".join(f"{name}={value}" for name, value in _given(row).items()),
                plural(row["every_minutes"], "minute"),
                moment_of(row["next_at"]),
            )
            for row in rows
        ]
        columns = ("schedule", "job", "subject", "options", "every", "next")
        print_rich(table(columns, cells, right=("schedule",)))
    else:
        say("there are no schedules")


@pipeline.command()
@click.argument("number", metavar="SCHEDULE", type=click.IntRange(min=1))
@act_options
def unschedule(number: int, consent: Consent) -> None:
    """Delete a schedule. A run that is waiting or running continues."""
    with console_api() as api:
        rows = api.get("pipeline/schedules")["schedules"]
    topic = next((row["topic_name"] for row in rows if row["id"] == number), "")
    if not topic:
        raise CliError(f"there is no schedule {number}", Exit.NOTHING, code="NothingToActOn")
    carry_out(Asked(kind="unschedule_job", topic=topic, parameters={"schedule": number}), consent)


def _options(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the job's options. Raises click.UsageError if an option is given twice."""
    options = dict(settings)
    if len(options) < len(settings):
        names = [name for name, _ in settings]
        twice = next(name for name in names if names.count(name) > 1)
        raise click.UsageError(f"--set {twice}=… is given twice: give it once.")
    return options


def _of_run(kind: str, number: int) -> Asked:
    with console_api() as api:
        topic = api.get(f"pipeline/runs/{number}")["topic_name"]
    return Asked(kind=kind, topic=topic, parameters={"run": number})


def _requested(asked: Asked, consent: Consent, *, follow: bool) -> None:
    """Carry out an act that requests a run. Then follow the run, or print how to follow it."""
    act = carry_out(asked, consent)
    number = None if act is None else (act["result"] or {}).get("run")
    if follow and number is not None:
        with console_api() as api:
            _follow(api, number)
    elif number is not None:
        say(f"`vela pipeline show {number}` shows the progress of run {number}")


def _follow(api: ConsoleApi, number: int) -> None:
    """Print each stage until the run ends. Raises CliError if it failed or was cancelled."""
    said = ""
    while True:
        row = api.get(f"pipeline/runs/{number}")
        now = row["state"] if not row["stages"] else row["stages"][-1]["name"]
        if now != said and not as_json_is_asked():
            say(one_line(f"run {number}: {now}"))
            said = now
        if row["has_ended"]:
            break
        time.sleep(_POLL_S)
    if as_json_is_asked():
        emit(row)
    if row["state"] != "done":
        raise CliError(one_line(f"run {number} {row['state']}: {row['error']}"), code="RunFailed", run=number)
    if not as_json_is_asked():
        click.echo(one_line(_words(row) or "done"))


def _given(row: dict[str, Any]) -> dict[str, str]:
    """Return the options of a run or a schedule that have a value."""
    return {name: value for name, value in row["options"].items() if value}


def _words(row: dict[str, Any]) -> str:
    return str((row["result"] or {}).get("words", ""))


def _progress(row: dict[str, Any]) -> str:
    """Return how far a run is; "" if the run is done, because its last report may have come too late to be stored."""
    if not row["stages"] or row["state"] == "done":
        return ""
    stage = row["stages"][-1]
    return (
        f"{stage['name']}: {count(stage['done'] or 0)} of {count(stage['of'])}"
        if stage["of"]
        else stage["name"]
    )
