"""Functions that a Django project has called with a topic's messages; `manage.py runhandlers` is the worker."""

from __future__ import annotations

from broker.handlers.message import Message
from broker.handlers.registry import Handler, HandlerInvalid, handler

__all__ = ["Handler", "HandlerInvalid", "Message", "handler"]
