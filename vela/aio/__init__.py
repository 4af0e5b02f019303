"""The client for asyncio; `vela` itself has the same one for threads."""

from __future__ import annotations

from vela.aio.client import Client

__all__ = ["Client"]
