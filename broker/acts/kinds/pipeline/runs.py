"""Start, continue and cancel pipeline jobs, such as an export of a topic. Worker processes run the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.storage.pipeline import requests as store
from broker.storage.pool import repeat_until_done
from pipeline.errors import PipelineError
from pipeline.jobs.catalogue import Job, find_job

__all__ = [
    "CancelJob",
    "ContinueJob",
    "JobParameters",
    "RunJob",
    "RunParameters",
    "checked_job",
    "topics_in",
    "with_options",
]

_STARTED_BY_WORKER = "a worker starts the run within seconds, if one is running"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParameters:
    """The job to run, and its options."""

    job: Annotated[str, Rule("name of the job, such as export")]
    options: Annotated[Mapping[str, str], Rule("the job's options")] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParameters:
    """The run to continue or cancel."""

    run: Annotated[int, Rule("number of the run", least=1)]


def checked_job(given: JobParameters) -> tuple[Job, dict[str, str]]:
    """Return the job and the value of each of its options. An option that is not given has its default.

    Raises ActInvalid for an unknown job or a wrong option.
    """
    try:
        job = find_job(given.job)
        return job, job.checked(given.options)
    except PipelineError as error:
        raise ActInvalid(str(error)) from None


def topics_in(given: JobParameters) -> tuple[str, ...]:
    """Return the topics to which the job publishes. Raises ActInvalid for an unknown job or a wrong option."""
    job, options = checked_job(given)
    return tuple(
        options[option.name] for option in job.options if option.kind == "topic" and options[option.name]
    )


def with_options(options: Mapping[str, str]) -> str:
    """Return the options in words."""
    shown = [f"{name} = {value}" for name, value in options.items() if value]
    return f"with {', '.join(shown)}" if shown else "without options"


class RunJob(DirectKind[JobParameters]):
    """Request a run of a job."""

    name = "run_job"
    summary = "Run a job of the pipeline, such as an export, over a topic."
    scope = Scope.TOPIC
    no_undo = "it cannot be undone, but you can cancel the run"
    parameters = JobParameters

    def other_topics(self, given: JobParameters) -> tuple[str, ...]:
        return topics_in(given)

    async def measure(self, context: ActContext, given: JobParameters) -> Effect:
        job, options = checked_job(given)
        subject = job.subject(context.act.topic_name, options)
        await _refuse_second(context, job.name, subject)
        return Effect(
            words=(
                f"{job.name} runs over {context.act.topic_name}",
                with_options(options),
            ),
            notes=(_STARTED_BY_WORKER,),
        )

    async def carry_out(self, context: ActContext, given: JobParameters) -> None:
        job, options = checked_job(given)
        topic = context.act.topic_name
        await repeat_until_done(
            context.pool,
            lambda c: store.request(
                c,
                job=job.name,
                subject=job.subject(topic, options),
                topic=topic,
                options=options,
                who=context.act.who,
                act_id=context.act.act_id,
            ),
            what="requesting a run",
        )

    async def apply(self, context: ActContext, given: JobParameters) -> Mapping[str, Any]:
        return {**await super().apply(context, given), "run": await _run_of(context)}


class ContinueJob(DirectKind[RunParameters]):
    """Continue a run that failed or was cancelled."""

    name = "continue_job"
    summary = "Continue a run of the pipeline that failed or was cancelled."
    scope = Scope.TOPIC
    no_undo = RunJob.no_undo
    parameters = RunParameters

    async def measure(self, context: ActContext, given: RunParameters) -> Effect:
        run = await _found(context, given.run)
        if run.state not in ("failed", "cancelled"):
            raise ActInvalid(
                f"run {run.id} is {run.state}: you can continue only one that failed or was cancelled"
            )
        await _refuse_second(context, run.job, run.subject)
        return Effect(
            words=(
                f"{run.job} of {run.subject} runs again with the options of run {run.id}",
                f"messages that run {run.id} published to a topic with deduplication are left out",
            ),
            notes=(_STARTED_BY_WORKER,),
        )

    async def carry_out(self, context: ActContext, given: RunParameters) -> None:
        run = await _found(context, given.run)
        await repeat_until_done(
            context.pool,
            lambda c: store.request(
                c,
                job=run.job,
                subject=run.subject,
                topic=run.topic_name,
                options=run.options,
                who=context.act.who,
                act_id=context.act.act_id,
                write_id=run.write_id,
                pinned=run.pinned,
                resumes_id=run.id,
            ),
            what="requesting a run",
        )

    async def apply(self, context: ActContext, given: RunParameters) -> Mapping[str, Any]:
        return {**await super().apply(context, given), "run": await _run_of(context)}


class CancelJob(DirectKind[RunParameters]):
    """Cancel a run that is waiting or running."""

    name = "cancel_job"
    summary = "Cancel a run of the pipeline that is waiting or running."
    scope = Scope.TOPIC
    no_undo = "it cannot be undone, but you can continue the run"
    parameters = RunParameters

    async def measure(self, context: ActContext, given: RunParameters) -> Effect:
        run = await _found(context, given.run)
        is_repeated = context.act.is_apply and run.cancelled_by
        if run.state not in ("waiting", "running") and not is_repeated:
            raise ActInvalid(f"run {run.id} is {run.state}, so there is nothing to cancel")
        how = (
            "the run has not begun"
            if run.state == "waiting"
            else "the worker stops it within seconds; messages that the run has published stay"
        )
        return Effect(words=(f"run {run.id}, {run.job} of {run.subject}, ends", how))

    async def carry_out(self, context: ActContext, given: RunParameters) -> None:
        await repeat_until_done(
            context.pool,
            lambda c: store.cancel(c, given.run, who=context.act.who),
            what="cancelling a run",
        )

    async def apply(self, context: ActContext, given: RunParameters) -> Mapping[str, Any]:
        return {**await super().apply(context, given), "run": given.run}


async def _refuse_second(context: ActContext, job: str, subject: str) -> None:
    act_id = context.act.act_id
    found = await repeat_until_done(
        context.pool,
        lambda c: store.unended(c, job=job, subject=subject, act_id=act_id),
        what="looking for runs",
    )
    if found is not None and not found.is_of_act:
        does = "waits for a worker" if found.state == "waiting" else "is running"
        raise ActInvalid(f"run {found.id} of {job} for {subject} {does}: wait until it ends, or cancel it")


async def _found(context: ActContext, run_id: int) -> store.Run:
    run = await repeat_until_done(context.pool, lambda c: store.find(c, run_id), what="looking for a run")
    if run is None or run.topic_name != context.act.topic_name:
        raise NothingToActOn(f"there is no run {run_id} over {context.act.topic_name}")
    return run


async def _run_of(context: ActContext) -> int | None:
    act_id = context.act.act_id
    return await repeat_until_done(
        context.pool, lambda c: store.id_of_act(c, act_id), what="looking for a run"
    )
