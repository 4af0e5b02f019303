"""The description of `/api/v1`, OpenAPI 3.1; the parameters of each kind of act come from the kind itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from broker.acts.requests import MOST_DRIFT_MESSAGES, described_kinds
from console.api.openapi_parts import answer, operation, query
from console.api.openapi_reads import SCHEMAS, reads

__all__ = ["document", "openapi"]


@require_safe
@login_not_required
def openapi(request: HttpRequest) -> HttpResponse:
    """No secret is in it."""
    return JsonResponse(document())


@cache
def document() -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Vela",
            "version": "1",
            "description": "Acts are planned, applied and undone; reads consume nothing. Counts are messages.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"basic": []}, {"session": [], "csrf": []}],
        "paths": {**_acts(), **reads()},
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
                "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRFToken"},
            },
            "schemas": {"Act": _ACT, "Problem": _PROBLEM, "NewAct": _new_act(), **SCHEMAS},
            "responses": {
                "Problem": {
                    "description": "What went wrong.",
                    "content": {
                        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                    },
                }
            },
        },
    }


def _acts() -> dict[str, Any]:
    return {
        "/acts": {
            "get": operation(
                "The log of acts, newest first, 50 at a time.",
                {
                    "200": answer(
                        "A page, and where the next one begins.",
                        {
                            "type": "object",
                            "properties": {
                                "acts": {"type": "array", "items": {"type": "object"}},
                                "next_before": {"type": ["integer", "null"]},
                            },
                        },
                    )
                },
                parameters=[
                    query("q", "part of a topic, a subscription or a person", "string"),
                    query("kind", "only this kind", "string"),
                    query("state", "only in this state", "string"),
                    query("before", "the next_before of the page before", "integer"),
                ],
            ),
            "post": operation(
                "Plan an act: its exact effect, nothing is changed.",
                {"201": _act("Planned."), "202": _act("Not answered yet: follow Location.")},
                body={"$ref": "#/components/schemas/NewAct"},
            ),
        },
        "/acts/{act_id}": {
            "get": operation("An act as it is now.", {"200": _act("The act.")}, parameters=[_act_id()])
        },
        "/acts/{act_id}/apply": {
            "post": operation(
                "Do what was planned. 409 when something else moved the cursor since: plan again; or when more would be"
                " done than was planned: new_plan is the act that holds the new preview.",
                {"200": _act("Applied."), "202": _act("Under way or not answered yet: follow Location.")},
                parameters=[_act_id()],
                body={
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "reason": {"type": "string"},
                        "allowed_drift_messages": {
                            "type": "integer",
                            "minimum": 0,
                            "maximum": MOST_DRIFT_MESSAGES,
                            "description": "how many more than planned may come again, or be lost by a delete; 0:"
                            " exactly what was planned; without it what the plan allows",
                        },
                    },
                },
            )
        },
        "/acts/{act_id}/undo": {
            "post": operation(
                "Plan taking back an applied act: an act of its own, to be applied.",
                {"201": _act("Planned."), "202": _act("Not answered yet: follow Location.")},
                parameters=[_act_id()],
            )
        },
    }


def _new_act() -> dict[str, Any]:
    """One alternative for each kind."""
    kinds = []
    for name, summary, scope, parameters in described_kinds():
        needs = ["kind", "topic"]
        if scope == "subscription":
            needs.append("subscription")
        if parameters.get("required"):
            needs.append("parameters")
        kinds.append(
            {
                "title": name,
                "description": summary,
                "type": "object",
                "additionalProperties": False,
                "required": needs,
                "properties": {
                    "kind": {"const": name},
                    "topic": {
                        "type": "string",
                        "description": "tenant/namespace"
                        if scope == "namespace"
                        else "a topic, in full or short",
                    },
                    **({"subscription": {"type": "string"}} if scope == "subscription" else {}),
                    "parameters": parameters,
                    "reason": {"type": "string", "description": "kept in the log"},
                },
            }
        )
    return {"oneOf": kinds}


def _act(description: str) -> dict[str, Any]:
    return answer(description, {"$ref": "#/components/schemas/Act"})


def _act_id() -> dict[str, Any]:
    return {"name": "act_id", "in": "path", "required": True, "schema": {"type": "integer"}}


_ACT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "kind", "state", "topic", "subscription", "parameters", "who", "created_at"],
    "properties": {
        "id": {"type": "integer"},
        "kind": {"type": "string"},
        "state": {
            "enum": [
                "plan_requested", "planned", "apply_requested", "applying", "applied", "refused", "failed",
                "expired", "client",
            ]
        },
        "topic": {"type": "string"},
        "subscription": {"type": "string", "description": "empty for an act on a topic or namespace"},
        "parameters": {"type": "object"},
        "plan": {"type": ["object", "null"]},
        "result": {"type": ["object", "null"]},
        "progress": {"type": ["object", "null"], "description": "of long work"},
        "error": {"type": "string"},
        "error_code": {"type": "string"},
        "is_waiting": {"type": "boolean", "description": "no broker has answered yet"},
        "is_retriable": {"type": "boolean"},
        "who": {"type": "string"},
        "origin": {"type": "string"},
        "reason": {"type": "string"},
        "cursor_version": {"type": ["integer", "null"]},
        "undo_of": {"type": ["integer", "null"]},
        "undo_until": {"type": ["string", "null"], "format": "date-time"},
        "undoable": {"type": "boolean", "description": "it is the latest of its cursor and in time"},
        "undone_by": {"type": ["integer", "null"], "description": "the act that took it back"},
        "new_plan": {
            "type": ["integer", "null"],
            "description": "the act that holds the new preview, where more would be done than this one had planned",
        },
        "created_at": {"type": "string", "format": "date-time"},
        "requested_at": {"type": "string", "format": "date-time"},
        "finished_at": {"type": ["string", "null"], "format": "date-time"},
    },
}  # fmt: skip
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["title", "status", "detail", "code", "retriable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what to change"},
        "code": {"type": "string"},
        "retriable": {"type": "boolean", "description": "the same may succeed later, or when planned again"},
        "act": {"type": "integer", "description": "the act that was refused"},
        "new_plan": {
            "type": "integer",
            "description": "the act that holds its new preview, to be applied instead",
        },
        "instance": {"type": "string", "description": "its address"},
    },
}
