"""One request to the admin REST API: the broker that answers it, and the objects in its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from django.core.handlers.asgi import ASGIRequest
from pydantic import BaseModel, model_validator

if TYPE_CHECKING:
    from broker.doors.ports import AdminPort

__all__ = ["AdminRequest", "PulsarObject"]

_ORIGIN: Final = "admin"
_ANONYMOUS: Final = "anonymous"
_REASON_HEADER: Final = "X-Vela-Reason"


class PulsarObject(BaseModel):
    """An object in a body. A member that is null counts as left out, as Pulsar's clients expect."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class AdminRequest(ASGIRequest):
    """Django's request, made for each call by `AdminPages`, which sets the broker."""

    broker: AdminPort

    @property
    def who(self) -> str:
        """The caller, as the act log names it."""
        return _ANONYMOUS

    async def act(
        self,
        kind: str,
        *,
        topic: str,
        subscription: str = "",
        parameters: Mapping[str, object] | None = None,
    ) -> int:
        """Carry out an act for the caller. Return its id. Raises the errors of `OwnRequests.carry_out`."""
        return await self.broker.own_requests.carry_out(
            kind,
            topic=topic,
            subscription=subscription,
            parameters=parameters,
            who=self.who,
            origin=_ORIGIN,
            reason=self.headers.get(_REASON_HEADER, ""),
        )
