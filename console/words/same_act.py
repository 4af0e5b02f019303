"""Ways to plan an act again. An act is a change that the broker makes on request."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.acts.requests import KINDS, ActView

__all__ = ["SameAct", "same_act"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAct:
    """A `vela` command and an HTTP request that plan the same act."""

    command: str
    request: str
    needs_message: bool
    needs_value: bool


def same_act(act: ActView, api_url: str) -> SameAct | None:
    """Return the command and the request, or None if they cannot plan acts of this kind.

    `api_url` is the full URL of `/api/v1`.
    """
    if act.kind == "undo":
        return SameAct(
            command=f"vela acts undo {act.undo_of}",
            request=_curl(f"{api_url}/acts/{act.undo_of}/undo", {}),
            needs_message=False,
            needs_value=False,
        )
    kind = KINDS.get(act.kind)
    if kind is None or not kind.can_be_requested:
        return None
    parameters: dict[str, Any] = dict(act.parameters)
    needs_value = act.kind == "publish" and not parameters.get("null_value")
    if needs_value:
        parameters["value"] = "…"
    subscription = ["--subscription", act.subscription] if act.subscription else []
    words = [
        *("vela", "acts", "plan", act.kind, act.topic),
        *subscription,
        *(f"{name}={_argument(value)}" for name, value in parameters.items()),
    ]
    document: dict[str, Any] = {"kind": act.kind, "topic": act.topic}
    if act.subscription:
        document["subscription"] = act.subscription
    return SameAct(
        command=shlex.join(words),
        request=_curl(f"{api_url}/acts", {**document, "parameters": parameters}),
        needs_message=act.kind == "publish",
        needs_value=needs_value,
    )


def _argument(value: Any) -> str:
    """Write a value as an argument of `vela acts plan`. Quote text that the command would read as JSON.

    The command never reads a decimal number, such as 1.5, as JSON.
    """
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(read, float) else json.dumps(value)


def _curl(url: str, document: Mapping[str, Any]) -> str:
    return shlex.join(
        ["curl", "-u", "NAME", "-H", "Content-Type: application/json", url, "-d", json.dumps(document)]
    )
