"""Call a Django project's functions with messages from the broker."""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
