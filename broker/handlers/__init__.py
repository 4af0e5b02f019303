"""Handlers: a Django project's functions that a worker calls with the messages of a subscription.

The worker (`manage.py runhandlers`) is a client like any other: it uses `vela.aio`, and its broker runs in another
process.
"""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
