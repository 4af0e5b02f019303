"""Functions of a Django project that are called with a topic's messages. `manage.py runhandlers` is the worker.

The worker is a client like any other: it uses `vela.aio`, and its broker runs in another process.
"""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
