"""Create and delete schedules of pipeline jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from broker.acts.kinds.base import ActContext, Scope
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.acts.kinds.pipeline.runs import JobParameters, checked_job, topics_in, with_options
from broker.core.counted import counted
from broker.storage.pipeline import requests as store
from broker.storage.pool import repeat_until_done
from pipeline.errors import PipelineError

__all__ = ["ScheduleJob", "ScheduleParameters", "ScheduledJob", "UnscheduleJob"]

_MOST_MINUTES = 31 * 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """The job to repeat, its options, and its interval."""

    job: Annotated[str, Rule("name of the job, such as insights")]
    every_minutes: Annotated[int, Rule("minutes from run to run", least=1, most=_MOST_MINUTES)]
    options: Annotated[Mapping[str, str], Rule("the job's options")] = field(default_factory=dict)

    @property
    def once(self) -> JobParameters:
        """Return the job without its schedule."""
        return JobParameters(job=self.job, options=self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleParameters:
    """The schedule to delete."""

    schedule: Annotated[int, Rule("number of the schedule", least=1)]


class ScheduleJob(DirectKind[ScheduledJob]):
    """Run a job now and after each interval."""

    name = "schedule_job"
    summary = "Repeat a job of the pipeline, the first time now."
    scope = Scope.TOPIC
    no_undo = "to undo it, delete the schedule"
    parameters = ScheduledJob

    def other_topics(self, given: ScheduledJob) -> tuple[str, ...]:
        return topics_in(given.once)

    async def measure(self, context: ActContext, given: ScheduledJob) -> Effect:
        job, options = checked_job(given.once)
        try:
            job.check_repeatable(options)
        except PipelineError as error:
            raise ActInvalid(str(error)) from None
        subject = job.subject(context.act.topic_name, options)
        return Effect(
            words=(
                f"{job.name} of {subject} runs every {counted(given.every_minutes, 'minute', 'minutes')}",
                with_options(options),
                "if there is a schedule for the same job and subject, it is changed",
            ),
            notes=(
                "if the last run has not ended when the next one is due, the next one is skipped",
                *filter(None, (job.schedule_note,)),
            ),
        )

    async def carry_out(self, context: ActContext, given: ScheduledJob) -> None:
        job, options = checked_job(given.once)
        topic = context.act.topic_name
        await repeat_until_done(
            context.pool,
            lambda c: store.schedule(
                c,
                job=job.name,
                subject=job.subject(topic, options),
                topic=topic,
                options=options,
                every_minutes=given.every_minutes,
                who=context.act.who,
            ),
            what="storing a schedule",
        )


class UnscheduleJob(DirectKind[ScheduleParameters]):
    """Delete a schedule."""

    name = "unschedule_job"
    summary = "Stop repeating a job of the pipeline."
    scope = Scope.TOPIC
    no_undo = "to undo it, schedule the job again"
    parameters = ScheduleParameters

    async def measure(self, context: ActContext, given: ScheduleParameters) -> Effect:
        found = await repeat_until_done(
            context.pool, lambda c: store.find_schedule(c, given.schedule), what="looking for a schedule"
        )
        if found is None and context.act.is_apply:
            return Effect(words=(f"schedule {given.schedule} is deleted",))
        if found is None or found.topic_name != context.act.topic_name:
            raise NothingToActOn(f"there is no schedule {given.schedule} over {context.act.topic_name}")
        every = counted(found.every_minutes, "minute", "minutes")
        return Effect(
            words=(
                f"{found.job} of {found.subject} no longer runs every {every}",
                "a run that is waiting or running continues",
            )
        )

    async def carry_out(self, context: ActContext, given: ScheduleParameters) -> None:
        await repeat_until_done(
            context.pool, lambda c: store.unschedule(c, given.schedule), what="deleting a schedule"
        )
