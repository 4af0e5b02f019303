"""The decorator `@handler`, and all functions that have it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from broker.core.errors import BrokerError
from broker.core.subscription.types import SubscriptionType, check_name
from broker.core.topic_name import TopicName
from broker.handlers.message import Message

__all__ = ["Handler", "HandlerInvalid", "handler", "registered"]

HandlerFunction: TypeAlias = Callable[[Message], object] | Callable[[Message], Awaitable[object]]
F = TypeVar("F", bound=HandlerFunction)

MAX_CONCURRENCY = 1000


class HandlerInvalid(ValueError):
    """The arguments of `@handler` are invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A subscription and the function that gets its messages."""

    name: str  # Module and name of the function
    function: HandlerFunction
    topic: TopicName
    subscription: str
    type: SubscriptionType
    concurrency: int  # Maximum number of simultaneous calls in one worker
    from_earliest: bool
    atomic: bool
    retry_delay_ms: int
    ack_timeout_ms: int  # 0 means no timeout
    max_redeliveries: int  # 0 means no dead-letter topic
    dead_letter_topic: str | None  # None means {topic}-{subscription}-DLQ

    @property
    def is_async(self) -> bool:
        """Whether the worker awaits the function on its event loop."""
        return inspect.iscoroutinefunction(self.function)


_registered: dict[str, Handler] = {}


def registered() -> dict[str, Handler]:
    """Return the handlers of all imported modules, keyed by name."""
    return _registered


def handler(
    topic: str,
    *,
    subscription: str,
    type: SubscriptionType | str = SubscriptionType.SHARED,  # noqa: A002 - the field's name
    concurrency: int = 1,
    from_earliest: bool = False,
    atomic: bool = False,
    retry_delay_s: float = 60.0,
    ack_timeout_s: float = 0.0,
    max_redeliveries: int = 0,
    dead_letter_topic: str | None = None,
) -> Callable[[F], F]:
    """Let `manage.py runhandlers` call a function with each message of a subscription.

    The worker acks a message when the function returns. If the function raises, the message is delivered again
    after `retry_delay_s`. Delivery is at least once, so the function must be safe to repeat.

    A plain function runs in a thread with its own database connection. A coroutine function runs on the worker's
    event loop. If `atomic` is true, the function runs in a database transaction, and the worker acks after the commit.

    Raises HandlerInvalid if the arguments are invalid.
    """

    def register(function: F) -> F:
        made = _checked(
            function,
            topic=topic,
            subscription=subscription,
            type_=type,
            concurrency=concurrency,
            from_earliest=from_earliest,
            atomic=atomic,
            retry_delay_ms=round(1000 * retry_delay_s),
            ack_timeout_ms=round(1000 * ack_timeout_s),
            max_redeliveries=max_redeliveries,
            dead_letter_topic=dead_letter_topic,
        )
        _registered[made.name] = made
        return function

    return register


def _checked(
    function: HandlerFunction,
    *,
    topic: str,
    subscription: str,
    type_: SubscriptionType | str,
    concurrency: int,
    from_earliest: bool,
    atomic: bool,
    retry_delay_ms: int,
    ack_timeout_ms: int,
    max_redeliveries: int,
    dead_letter_topic: str | None,
) -> Handler:
    name = f"{function.__module__}.{function.__qualname__}"

    def refuse(what: str) -> HandlerInvalid:
        return HandlerInvalid(f"handler {name}: {what}")

    if (known := _registered.get(name)) is not None and known.function is function:
        raise refuse("the function is a handler already; write one function for each subscription")
    try:
        parsed, wanted = TopicName.parse(topic), SubscriptionType(type_)
        check_name(subscription)
    except BrokerError as error:
        raise refuse(str(error)) from None
    except ValueError:
        names = ", ".join(each.value for each in SubscriptionType)
        raise refuse(f"type {type_!r} is not one of {names}") from None
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise refuse(f"concurrency is {concurrency}: it takes 1 to {MAX_CONCURRENCY}")
    if wanted is not SubscriptionType.SHARED and concurrency > 1:
        raise refuse(f"concurrency {concurrency} would break the order of {wanted.value}; use 1, or Shared")
    if retry_delay_ms < 100:
        raise refuse(f"retry_delay_s is {retry_delay_ms / 1000:g}: it takes at least 0.1")
    if ack_timeout_ms and ack_timeout_ms < 1000:
        raise refuse(f"ack_timeout_s is {ack_timeout_ms / 1000:g}: it takes 0, or at least 1")
    if max_redeliveries < 0:
        raise refuse(f"max_redeliveries is {max_redeliveries}: it takes 0 or more")
    if max_redeliveries and wanted.single_active:
        raise refuse(f"max_redeliveries never counts on {wanted.value}: use Shared or Key_Shared")
    if dead_letter_topic and not max_redeliveries:
        raise refuse("dead_letter_topic needs max_redeliveries")
    if atomic and inspect.iscoroutinefunction(function):
        raise refuse("atomic needs a plain function: Django's transactions belong to a thread")
    return Handler(
        name=name,
        function=function,
        topic=parsed,
        subscription=subscription,
        type=wanted,
        concurrency=concurrency,
        from_earliest=from_earliest,
        atomic=atomic,
        retry_delay_ms=retry_delay_ms,
        ack_timeout_ms=ack_timeout_ms,
        max_redeliveries=max_redeliveries,
        dead_letter_topic=dead_letter_topic,
    )
