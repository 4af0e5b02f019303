"""Call a Django project's functions with messages from the broker.

The worker of `manage.py runhandlers` is a client. The broker runs in another process.
"""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
