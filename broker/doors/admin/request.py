"""One request to the admin REST API, with the broker that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from django.core.handlers.asgi import ASGIRequest

if TYPE_CHECKING:
    from broker.doors.ports import AdminPort

__all__ = ["AdminRequest"]

_ORIGIN: Final = "admin"
_ANONYMOUS: Final = "anonymous"
_REASON_HEADER: Final = "X-Vela-Reason"


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
