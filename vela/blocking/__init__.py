"""The client for threads: the names of `vela.aio`, without `await`."""

from __future__ import annotations

from vela.blocking.client import Client
from vela.blocking.consumer import Consumer
from vela.blocking.producer import Producer

__all__ = ["Client", "Consumer", "Producer"]
