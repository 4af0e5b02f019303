"""Plan an act after checking the user's rights on every topic and namespace that the act names.

An act is a change that the broker makes on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from broker.acts import requests as acts
from broker.acts.requests import ActView
from console.access.guards import check_may_act
from console.access.rights import Rights
from console.origin import origin_of
from console.queries import pipeline

__all__ = ["named_by", "plan"]


def named_by(
    kind: str, topic: str, parameters: Mapping[str, object], planned: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return every topic or namespace that an act changes or publishes to."""
    if kind == "continue_job":
        run = pipeline.run(number) if isinstance(number := parameters.get("run"), int) else None
        parameters = {} if run is None else {"job": run.job, "options": run.given}
        return (topic, *acts.other_topics("run_job", parameters))
    return (topic, *acts.other_topics(kind, parameters, planned or {}))


def plan(
    request: HttpRequest,
    rights: Rights,
    kind: str,
    *,
    topic: str,
    subscription: str = "",
    parameters: Mapping[str, object],
) -> ActView:
    """Plan an act for a page of the console.

    Raises PermissionDenied if the user may not request the act. Raises ActRefused if the request is wrong. If the
    broker refuses the plan, the returned act says why.
    """
    for name in named_by(kind, topic, parameters):
        check_may_act(rights, name, kind)
    return acts.plan(
        kind,
        topic=topic,
        subscription=subscription,
        parameters=parameters,
        who=rights.name,
        origin=origin_of(request),
    )
