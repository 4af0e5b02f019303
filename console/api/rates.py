"""The limit on each user's requests to `/api/v1`."""

from __future__ import annotations

import functools
import threading

from broker.conf import broker_settings
from broker.listening.client_rates import ClientRates, TooManyRequests
from broker.listening.connection_limits import ConnectionLimits
from console.api.problems import Problem

__all__ = ["check_rate"]

_counting = threading.Lock()  # Views run in several threads


def check_rate(user: str) -> None:
    """Count a request. Raises Problem if the user exceeds VELA_HTTP_REQUEST_RATE_PER_ROLE."""
    with _counting:
        try:
            _rates().check_role(user)
        except TooManyRequests as error:
            raise Problem(429, "TooManyRequests", str(error), headers={"Retry-After": "1"}) from None


@functools.cache
def _rates() -> ClientRates:
    return ConnectionLimits(broker_settings()).rates
