"""Functions of a Django project that a worker calls with messages.

The worker of `manage.py runhandlers` is a client. The broker runs in another process.
"""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
