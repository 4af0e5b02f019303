"""The pages of the pipeline, which runs Spark jobs on topics."""

from __future__ import annotations

import time
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from broker.acts import requests as acts
from broker.conf import broker_settings
from broker.models.pipeline import PipelineRun
from console.access import Rights, operator_only, plan, viewer
from console.blocks import Source, answer, page
from console.queries import pipeline as queries
from console.queries.pipeline import RunRow, RunsAsked
from console.views.pipeline.forms import JobForm
from console.views.post_only import post_only
from pipeline.jobs.catalogue import JOBS

__all__ = ["act_on_run", "job_form", "pipeline", "run", "unschedule"]

_POLL_S = 2
_WORKER_SILENT_S = 30
_ACTS = {"cancel": "cancel_job", "continue": "continue_job"}


@require_safe
@viewer
def pipeline(request: HttpRequest, rights: Rights) -> HttpResponse:
    """List the jobs, schedules and runs."""
    asked = _asked(request)
    sources = [
        Source(
            name="schedules",
            template="console/parts/pipeline/schedules.html",
            live=(),
            every_s=5 * _POLL_S,
            context=lambda: {"schedules": queries.schedules(rights.scope)},
        ),
        Source(
            name="runs",
            template="console/parts/pipeline/runs.html",
            live=(),
            every_s=_POLL_S,
            context=lambda: _runs(request, rights, asked),
        ),
    ]
    context = {
        "jobs": JOBS,
        "asked": asked,
        "states": PipelineRun.State.values,
        "topic": request.GET.get("topic", ""),
        "nav": "pipeline",
    }
    return answer(request, rights, "console/pages/pipeline.html", sources, context)


@require_http_methods(["GET", "HEAD", "POST"])
@operator_only
def job_form(request: HttpRequest, rights: Rights, job: str) -> HttpResponse:
    """Show a job's form, or make a plan to run or schedule the job."""
    found = JOBS.get(job)
    if found is None:
        raise Http404(_("There is no job {job}.").format(job=job))
    status, refusal = 200, ""
    if request.method == "POST":
        form = JobForm(found, request.POST)
        status = 422
        if form.is_valid():
            kind, parameters = form.act
            try:
                view = plan(request, rights, kind, topic=form.cleaned_data["topic"], parameters=parameters)
            except acts.ActRefused as refused:
                status, refusal = 409, refused.text
            else:
                return redirect("console:act", view.id)
    else:
        given = {name: request.GET[name] for name in JobForm(found, None).fields if name in request.GET}
        form = JobForm(found, None, initial=given)
    context = {
        "job": found,
        "jobs": JOBS,
        "form": form,
        "refusal": refusal,
        "folder": broker_settings().pipeline_folder,
        "nav": "pipeline",
    }
    return page(request, rights, "console/pages/job_form.html", context, status=status)


@require_safe
@viewer
def run(request: HttpRequest, rights: Rights, run_id: int) -> HttpResponse:
    """Show one run."""
    found, rights = _found(run_id, rights)
    source = Source(
        name="run",
        template="console/parts/pipeline/run.html",
        live=(),
        every_s=0 if found.has_ended else _POLL_S,
        context=lambda: {"run": found if rights.may_see_payloads else found.without_messages},
    )
    response = answer(request, rights, "console/pages/run.html", [source], {"run": found, "nav": "pipeline"})
    if "part" in request.GET and found.has_ended:
        response["HX-Refresh"] = "true"  # Reload the page: the buttons are outside the refreshed block
    return response


@post_only("console:run", "run_id")
@operator_only
def act_on_run(request: HttpRequest, rights: Rights, run_id: int, verb: str) -> HttpResponse:
    """Make a plan to cancel or continue a run."""
    found, rights = _found(run_id, rights)
    kind = _ACTS.get(verb)
    if kind is None:
        raise Http404(_("There is no action {verb} for a run.").format(verb=verb))
    return _planned(request, rights, kind, found.topic_name, {"run": run_id})


@post_only("console:pipeline")
@operator_only
def unschedule(request: HttpRequest, rights: Rights, schedule_id: int) -> HttpResponse:
    """Make a plan to delete a schedule."""
    found = queries.schedule(schedule_id) if schedule_id < 1 << 63 else None
    if found is None or not rights.may_see(found.topic_name):
        raise Http404(_("There is no schedule {schedule_id}.").format(schedule_id=schedule_id))
    return _planned(request, rights, "unschedule_job", found.topic_name, {"schedule": schedule_id})


def _planned(
    request: HttpRequest, rights: Rights, kind: str, topic: str, parameters: dict[str, Any]
) -> HttpResponse:
    try:
        view = plan(request, rights, kind, topic=topic, parameters=parameters)
    except acts.ActRefused as refused:
        context = {"refusal": refused.text, "nav": "pipeline"}
        return page(request, rights, "console/pages/pipeline_refused.html", context, status=409)
    return redirect("console:act", view.id)


def _found(run_id: int, rights: Rights) -> tuple[RunRow, Rights]:
    found = queries.run(run_id) if run_id < 1 << 63 else None
    if found is None or not rights.may_see(found.topic_name):
        raise Http404(_("There is no run {run_id}.").format(run_id=run_id))
    return found, rights.at(found.topic_name)


def _asked(request: HttpRequest) -> RunsAsked:
    before = request.GET.get("before", "")
    return RunsAsked(
        job=request.GET.get("job", "").replace("\0", ""),
        state=request.GET.get("state", "").replace("\0", ""),
        topic=request.GET.get("of", "").replace("\0", ""),
        before=int(before) if before.isdecimal() and before.isascii() and len(before) < 19 else None,
    )


def _runs(request: HttpRequest, rights: Rights, asked: RunsAsked) -> dict[str, Any]:
    rows, next_before = queries.runs(asked, rights.scope)
    seen_at = queries.worker_seen_at()
    older = request.GET.copy()
    older.pop("part", None)
    older["before"] = str(next_before)
    return {
        "rows": rows,
        "asked": asked,
        "older": older.urlencode() if next_before else "",
        "is_filtered": bool(asked.job or asked.state or asked.topic),
        "has_worker": seen_at is not None and time.time() - seen_at.timestamp() < _WORKER_SILENT_S,
        "seen_at": seen_at,
    }
