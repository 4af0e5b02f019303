"""Notify the configured interceptors before entries are sent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.plugins import DispatchInterceptor, SentEntry

if TYPE_CHECKING:
    from broker.subscription.requests import Delivery

__all__ = ["Interception"]

logger = logging.getLogger(__name__)


class Interception:
    """The interceptors of one broker. Only the first failure of each interceptor is logged."""

    def __init__(self, interceptors: Sequence[DispatchInterceptor]) -> None:
        self._interceptors = interceptors
        self._complained: set[int] = set()  # Contains id() values, because an interceptor may be unhashable
        self.failures = 0

    def sending(self, topic: str, subscription: str, consumer: str, deliveries: Sequence[Delivery]) -> None:
        """Notify the interceptors that these deliveries go to this consumer. Raises nothing."""
        for entry, redelivery_count, remaining in deliveries:
            sent = SentEntry(
                topic=topic,
                subscription=subscription,
                consumer=consumer,
                ledger_id=entry.ledger_id,
                entry_id=entry.entry_id,
                messages=entry.messages if remaining is None else remaining.bit_count(),
                redelivery_count=redelivery_count,
                data=entry.data,
            )
            for each in self._interceptors:
                try:
                    each.sending(sent)
                except Exception:
                    self.failures += 1
                    if id(each) not in self._complained:
                        self._complained.add(id(each))
                        logger.exception(
                            "interceptor %s failed on %s:%s; the message is sent nevertheless, and further failures of"
                            " this interceptor are only counted",
                            type(each).__name__,
                            sent.ledger_id,
                            sent.entry_id,
                        )
