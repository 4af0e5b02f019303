"""How often one user may call `/api/v1`."""

from __future__ import annotations

import functools
import threading

from broker.conf import broker_settings
from broker.listening.client_rates import ClientRates, TooManyRequests
from broker.listening.connection_limits import ConnectionLimits
from console.api.problems import Problem

__all__ = ["check_rate"]

_counting = threading.Lock()  # views run in several threads


def check_rate(user: str) -> None:
    """Count a request. Raises Problem with 429 if the user sends more than VELA_HTTP_REQUEST_RATE_PER_ROLE allows."""
    with _counting:
        try:
            _rates().check_role(user)
        except TooManyRequests as error:
            raise Problem(429, "TooManyRequests", str(error), headers={"Retry-After": "1"}) from None


@functools.cache
def _rates() -> ClientRates:
    return ConnectionLimits(broker_settings()).rates
