"""Explain why the policy `second_person` refuses an act. SQL statements enforce the policy."""

from __future__ import annotations

from typing import Final

from broker.acts.kinds.parameters import ActInvalid
from broker.storage.acts.acts import PEOPLE, SECOND_PERSON_S

__all__ = [
    "PEOPLE",
    "SECOND_PERSON_S",
    "SecondPersonNeeded",
    "complaint",
    "is_user",
    "namespace_of",
    "without_account",
]

_AS_A_USER: Final = (
    "plan the act as a user of the console, on its pages, with `vela --user` or through /api/v1, and let another user"
    " apply it"
)


class SecondPersonNeeded(ActInvalid):
    """The namespace needs one user to plan an act and another user to apply it."""

    code = "SecondPersonNeeded"


def namespace_of(topic: str) -> str:
    """Return the namespace in a topic's full name."""
    return "/".join(topic.rpartition("://")[2].split("/")[:2])


def is_user(origin: str) -> bool:
    """Return whether requests of this origin come from a user with an account."""
    return origin.partition(" ")[0] in PEOPLE


def without_account(topic: str) -> str:
    """Return the error text for a request without a user's account."""
    return (
        f"namespace {namespace_of(topic)} asks for a second person (policy second_person), and only users with an"
        f" account count: {_AS_A_USER}"
    )


def complaint(
    act_id: int, topic: str, *, planner: str, planned_from: str, who: str, origin: str
) -> str | None:
    """Return why a user may not apply a plan, or None if the user may apply it."""
    namespace = namespace_of(topic)
    if not is_user(origin):
        return without_account(topic)
    if not is_user(planned_from):
        return (
            f"act {act_id} was planned without a user's account ({planned_from}), and namespace {namespace} asks for"
            f" two users (policy second_person): {_AS_A_USER}"
        )
    if planner == who:
        return (
            f"act {act_id} waits for a second person (policy second_person of {namespace}): you planned it, so another"
            " user must apply it"
        )
    return None
