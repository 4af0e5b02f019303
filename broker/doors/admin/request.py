"""Requests to the admin REST API, and the objects in their bodies.

An act is a change that Vela plans, applies and logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from django.core.handlers.asgi import ASGIRequest
from pydantic import BaseModel, BeforeValidator, model_validator

if TYPE_CHECKING:
    from broker.core.access.principal import Principal
    from broker.doors.ports import AdminPort

__all__ = ["ORIGIN", "AdminRequest", "Number", "PulsarObject"]

ORIGIN: Final = "admin"
_REASON_HEADER: Final = "X-Vela-Reason"


def _no_boolean(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError("it is a boolean, and a number is needed")
    return given


Number: TypeAlias = Annotated[int, BeforeValidator(_no_boolean)]
"""A whole number in a body. Pydantic alone would read true as 1."""


class PulsarObject(BaseModel):
    """An object in a body. A null member counts as absent, as Pulsar's clients expect."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class AdminRequest(ASGIRequest):
    """A Django request that keeps the query undecoded. Vela's APIs decode the query differently from Django."""

    broker: AdminPort
    principal: Principal
    path_names: Mapping[str, Any]
    query_string: bytes

    def _set_content_type_params(self, meta: Mapping[str, str]) -> None:
        """Ignore the parameters of the content type, because Django fails on some of them."""
        self.content_type = meta.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        self.content_params = {}

    @property
    def reason(self) -> str:
        """The client's reason for a change, or an empty string."""
        return self.headers.get(_REASON_HEADER, "")

    async def act(
        self,
        kind: str,
        *,
        topic: str,
        subscription: str = "",
        parameters: Mapping[str, object] | None = None,
    ) -> int:
        """Carry out an act and return its id. Raises BrokerError if the act is refused or fails."""
        return await self.broker.own_requests.carry_out(
            kind,
            topic=topic,
            subscription=subscription,
            parameters=parameters,
            who=self.principal.role,
            origin=ORIGIN,
            reason=self.reason,
        )
