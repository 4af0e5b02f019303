"""The errors of both clients for a URL that is wrong for its port."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from vela import errors

__all__ = ["ClientClass", "refusal"]

ClientClass = Callable[..., Any]

SOON_S = 8.0  # on a busy machine
PATIENCE_S = 0.2  # of silence, after which the client asks elsewhere; users' clients wait a second


async def refusal(client_class: ClientClass, url: str, *authentication: Any) -> str:
    """The HandshakeError of a client that wants a producer there. Fails when that takes longer than seconds."""
    client = client_class(url, *authentication, tls_allow_insecure_connection=True, initial_backoff_ms=5)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vela.aio.connections.opening._PATIENCE_S", PATIENCE_S)
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
