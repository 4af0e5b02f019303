"""Handlers: functions of a Django project, which a worker, `manage.py runhandlers`, calls with a topic's messages.

The worker is a client like any other: it uses `vela.aio`, and its broker runs in another process.
"""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
