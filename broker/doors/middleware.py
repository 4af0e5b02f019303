"""Base class of middleware that checks requests and handshakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.middleware import BaseMiddleware

from broker.doors.asgi import refuse
from broker.doors.handshake_errors import HandshakeRefused

if TYPE_CHECKING:
    from broker.doors.asgi import Receive, Scope, Send

__all__ = ["CheckingMiddleware"]


class CheckingMiddleware(BaseMiddleware):  # type: ignore[misc]  # Channels has no types
    """Passes a request on, or answers with the refusal that `check` raises."""

    def check(self, scope: Scope) -> None:
        """Check the scope. The check may also change the scope. Raises HandshakeRefused."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner_scope = dict(scope)
        try:
            self.check(inner_scope)
        except HandshakeRefused as refusal:
            await refuse(scope, receive, send, refusal)
        else:
            await self.inner(inner_scope, receive, send)
