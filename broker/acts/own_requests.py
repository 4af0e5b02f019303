"""Plan and apply acts from inside the broker's process. An act is a change that the broker makes on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.acts.kinds.base import ActConflict, Scope
from broker.acts.kinds.drift import MOST_DRIFT_MESSAGES
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn
from broker.acts.kinds.registry import find_kind
from broker.acts.second_person import SecondPersonNeeded, without_account
from broker.storage.acts import acts as store

if TYPE_CHECKING:
    from broker.acts.runner import ActRunner
    from broker.storage.connection import Connection

__all__ = ["OwnRequests", "PlanEnded", "PlanRefused", "ReasonMissing"]

_ATTEMPTS: Final = 3


class ReasonMissing(ActInvalid):
    """The namespace is protected, and the request gives no reason."""

    code = "ReasonMissing"


class PlanRefused(ActInvalid):
    """The plan was refused before this request could apply it. The error says why."""

    code = "NotApproved"


class PlanEnded(ActInvalid):
    """The plan was applied or expired before this request could apply it."""

    code = "WrongState"


class OwnRequests:
    """Carries out acts through the `ActRunner`."""

    def __init__(self, runner: ActRunner) -> None:
        self._runner = runner

    async def carry_out(
        self,
        kind: str,
        *,
        topic: str,
        subscription: str = "",
        parameters: Mapping[str, object] | None = None,
        who: str,
        origin: str,
        reason: str = "",
    ) -> int:
        """Plan an act, apply it, and return its id. A long act continues after this method has returned.

        `topic` names a topic, a namespace (tenant/namespace) or a tenant (tenant/*).

        Raises NothingToActOn if the topic, subscription or namespace does not exist. Raises ReasonMissing if the
        namespace is protected and `reason` is empty. Raises SecondPersonNeeded if the namespace requires two users.
        Raises another BrokerError if the broker refuses the act, or if the act fails or is only partly done.

        A user may refuse or apply the plan before this method can apply it. Raises PlanRefused if the plan was refused,
        and PlanEnded if it was applied or has expired.
        """
        asked = find_kind(kind)
        given = dict(parameters or {})
        message = asked.message_of(asked.read(given))
        stored = {name: value for name, value in given.items() if name not in asked.of_message}

        async def plan(connection: Connection) -> int | None:
            return await store.request_plan(
                connection,
                kind=kind,
                scope=asked.scope,
                topic=topic,
                subscription=subscription,
                parameters=stored,
                message=message,
                who=who,
                origin=origin,
                reason=reason,
            )

        attempts = _ATTEMPTS
        while True:
            act_id = await self._runner.ask(plan)
            if act_id is None:
                what = f"subscription {subscription} on" if asked.scope is Scope.SUBSCRIPTION else asked.scope
                raise NothingToActOn(f"there is no {what} {topic}")
            attempts -= 1
            try:
                await self._apply(act_id, topic, who, origin, reason)
            except ActConflict:
                if not attempts:
                    raise
            else:
                return act_id

    async def _apply(self, act_id: int, topic: str, who: str, origin: str, reason: str) -> None:
        refusal = ActInvalid("the plan could not be applied")

        async def apply(connection: Connection) -> int | None:
            nonlocal refusal
            if await store.request_apply(
                connection,
                act_id,
                who=who,
                origin=origin,
                reason=reason,
                allowed_drift_messages=MOST_DRIFT_MESSAGES,
            ):
                return act_id
            if await store.needs_second_person(connection, act_id):
                refusal = SecondPersonNeeded(without_account(topic))
                await store.refuse(
                    connection, act_id, who=who, origin=origin, error=str(refusal), error_code=refusal.code
                )
            else:
                refusal = _why_not_applied(act_id, topic, *await store.outcome(connection, act_id))
            return None

        if await self._runner.ask(apply) is None:
            raise refusal


def _why_not_applied(act_id: int, topic: str, state: str, error: str) -> ActInvalid:
    if state == "planned":
        return ReasonMissing(f"the namespace of {topic} is protected: give a reason (policy protected)")
    if state == "refused":
        return PlanRefused(f"act {act_id} was not applied: {error}")
    return PlanEnded(f"act {act_id} is {state}: only a planned act can be applied")
