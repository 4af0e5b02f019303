"""The client for threads, with the same names as `vela.aio` and without `await`."""

from __future__ import annotations

from vela.blocking.client import Client
from vela.blocking.consumer import Consumer
from vela.blocking.producer import Producer
from vela.blocking.reader import Reader
from vela.blocking.table_view import TableView

__all__ = ["Client", "Consumer", "Producer", "Reader", "TableView"]
