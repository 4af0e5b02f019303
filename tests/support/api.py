"""Use `/api/v1` of a whole Vela as the admin. It is quicker than manage.py, which starts a process for each command."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

from tests.support.vela import ADMIN_PASSWORD, VelaProcess

__all__ = ["act", "ask", "create_topic"]

_AUTHORIZATION = "Basic " + base64.b64encode(f"admin:{ADMIN_PASSWORD}".encode()).decode()


def ask(vela: VelaProcess, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Send a GET request, or a POST request if there is a body. Return the status and the answer."""
    request = urllib.request.Request(
        f"{vela.console_url}/api/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": _AUTHORIZATION, "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def act(vela: VelaProcess, kind: str, topic: str, **parameters: Any) -> dict[str, Any]:
    """Plan and apply an act on a topic or a namespace. Return the act."""
    status, planned = _planned(vela, kind, topic, parameters)
    assert status == HTTPStatus.CREATED, planned
    return _apply(vela, planned)


def create_topic(vela: VelaProcess, topic: str, *, partitions: int = 0, **policies: str) -> None:
    """Create a topic with these policies, and its namespace if that does not exist."""
    namespace, _, name = topic.removeprefix("persistent://").rpartition("/")
    namespace = namespace or "public/default"
    parameters = {"name": name, "partitions": partitions, "policies": policies}
    status, planned = _planned(vela, "create_topic", namespace, parameters)
    if status == HTTPStatus.NOT_FOUND:
        act(vela, "create_namespace", namespace)
        status, planned = _planned(vela, "create_topic", namespace, parameters)
    assert status == HTTPStatus.CREATED, planned
    _apply(vela, planned)


def _planned(
    vela: VelaProcess, kind: str, topic: str, parameters: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    return ask(vela, "acts", {"kind": kind, "topic": topic, "parameters": parameters})


def _apply(vela: VelaProcess, planned: dict[str, Any]) -> dict[str, Any]:
    status, done = ask(vela, f"acts/{planned['id']}/apply", {"reason": "test"})
    assert (status, done["state"]) == (HTTPStatus.OK, "applied"), done
    return done
