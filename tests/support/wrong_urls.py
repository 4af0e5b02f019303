"""The errors of Vela's two clients, asyncio and blocking, for a URL that is wrong for its port."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from vela import errors

__all__ = ["ClientClass", "refusal"]

ClientClass = Callable[..., Any]

# Long enough on a busy machine. After one second without an answer, the client tries another protocol on the port.
SOON_S = 8.0


async def refusal(client_class: ClientClass, url: str, *authentication: Any) -> str:
    """Open a producer at this URL, and return the text of the HandshakeError, which must come within SOON_S."""
    client = client_class(url, *authentication, tls_allow_insecure_connection=True, initial_backoff_ms=5)
    try:
        with pytest.raises(errors.HandshakeError) as caught:
            await asyncio.wait_for(_called(client.create_producer, "t"), SOON_S)
    finally:
        await _called(client.close)
    return str(caught.value)


async def _called(method: Callable[..., Any], *args: Any) -> None:
    if inspect.iscoroutinefunction(method):
        await method(*args)
    else:
        await asyncio.to_thread(method, *args)
