"""A console that answers as a test says, and records its requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx

from tests.support.plans import a_plan

__all__ = ["Asked", "FakeConsole", "an_act", "problem"]

PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str  # after /api/v1/
    query: dict[str, str]
    pairs: list[tuple[str, str]]  # names and values of the query, including repeated names
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(slots=True)
class FakeConsole:
    """Answers requests by method and path.

    If the answer is a list, each request gets the next item, and the last item is repeated. Requests for which
    the test sets no answer plan and apply acts.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    plan: dict[str, Any] = field(default_factory=dict)
    fails: Callable[[httpx.Request], None] | None = None  # raises the errors of a connection

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.fails is not None:
            self.fails(request)
        asked = Asked(
            method=request.method,
            path=request.url.raw_path.decode().removeprefix("/api/v1/").partition("?")[0],
            query=dict(parse_qsl(request.url.query.decode())),
            pairs=parse_qsl(request.url.query.decode()),
            body=json.loads(request.content or b"{}"),
            headers=dict(request.headers),
        )
        self.asked.append(asked)
        answer = self.answers.get(f"{asked.method} {asked.path}")
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, httpx.Response):
            return answer
        if answer is not None:
            return httpx.Response(200, json=answer)
        return self._act(asked)

    def paths(self, method: str = "GET") -> list[str]:
        """Return the requested paths, in order."""
        return [each.path for each in self.asked if each.method == method]

    def _act(self, asked: Asked) -> httpx.Response:
        if asked.method == "POST" and asked.path == "acts":
            return httpx.Response(
                201, json=an_act(**{"plan": self.plan or a_plan(), "subscription": "", **asked.body})
            )
        if asked.method == "POST" and asked.path.endswith("/apply"):
            return httpx.Response(200, json=an_act(state="applied", result=a_result()))
        if asked.method == "POST" and asked.path.endswith("/undo"):
            undo_of = int(asked.path.split("/")[1])
            return httpx.Response(201, json=an_act(kind="undo", undo_of=undo_of, plan=a_plan()))
        return problem(404, "NotFound", f"there is no {asked.path}")


def problem(status: int, code: str, detail: str, **more: Any) -> httpx.Response:
    """Return an answer with a problem document."""
    body = {"status": status, "code": code, "detail": detail, "retriable": False, **more}
    return httpx.Response(status, json=body, headers={"Content-Type": PROBLEM})


def an_act(**changes: Any) -> dict[str, Any]:
    """Return an act as the API has it."""
    return {
        "id": 7,
        "kind": "reset",
        "state": "planned",
        "topic": "persistent://public/default/orders",
        "subscription": "billing",
        "parameters": {"to": "earliest"},
        "plan": None,
        "result": None,
        "progress": None,
        "error": "",
        "error_code": "",
        "is_waiting": False,
        "is_retriable": False,
        "who": "ada",
        "origin": "api 127.0.0.1",
        "reason": "",
        "planned_by": "ada",
        "needs_second_person": False,
        "cursor_version": 2,
        "undo_of": None,
        "undo_until": "2026-01-01T01:00:00Z",
        "undoable": changes.get("state") == "applied",
        "undone_by": None,
        "new_plan": None,
        "created_at": "2026-01-01T00:00:00Z",
        "requested_at": "2026-01-01T00:00:00Z",
        "finished_at": None,
        **changes,
    }


def a_result(**changes: Any) -> dict[str, Any]:
    """Return the result of an applied act as the API has it."""
    return {
        "before": "1:4",
        "after": "1:0",
        "inside": None,
        "replayed_messages": 4,
        "skipped_messages": 0,
        "acked_meanwhile_messages": 0,
        "published_meanwhile_messages": 0,
        "backlog_messages": 16,
        "consumers_closed": 1,
        "consumers_kept": 0,
        **changes,
    }
