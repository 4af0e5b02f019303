"""Wrap a reader's listener to acknowledge each message, so that the broker keeps sending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from vela.core.argument_checks import is_coroutine_function
from vela.message import Message

__all__ = ["reader_listener"]


def reader_listener(
    function: Callable[[Any, Message], Awaitable[None] | None],
) -> Callable[[Any, Message], Awaitable[None] | None]:
    """Wrap a listener. It gets the reader's consumer or, on a thread, a `ListenerView` of that consumer."""
    if is_coroutine_function(function):
        call = cast("Callable[[Any, Message], Awaitable[None]]", function)

        async def on_loop(consumer: Any, message: Message) -> None:
            try:
                await call(consumer, message)
            finally:
                consumer.acknowledge_cumulative(message)

        return on_loop

    def on_thread(view: Any, message: Message) -> Awaitable[None] | None:
        try:
            return function(view, message)
        finally:
            view.acknowledge_cumulative(message)

    return on_thread
