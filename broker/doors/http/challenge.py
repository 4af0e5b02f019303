"""Add the WWW-Authenticate header to answers with status 401."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from channels.middleware import BaseMiddleware

if TYPE_CHECKING:
    from broker.doors.asgi import Application, Receive, Scope, Send

__all__ = ["Challenge"]


class Challenge(BaseMiddleware):  # type: ignore[misc]  # Channels has no types
    """Adds WWW-Authenticate to answers with status 401, including refused WebSocket handshakes."""

    def __init__(self, inner: Application, *, fields: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__(inner)
        self._fields = fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def challenge(event: Mapping[str, Any]) -> None:
            if event.get("status") == 401:
                event = {**event, "headers": [*event["headers"], *self._fields]}
            await send(event)

        await self.inner(scope, receive, challenge)
