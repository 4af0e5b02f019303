"""How much a client may ask and send per second, by connection, address and role."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from broker.conf import BrokerSettings
from broker.core.errors import TooManyRequests
from broker.listening.client_rates import ClientRates

HERE, SAME_HOST, ELSEWHERE = "10.0.0.1:5000", "10.0.0.1:5001", "10.0.0.2:5000"


class Rates:
    """`ClientRates` with a clock that stands still, and how often each limit was reported as reached."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.reached: Counter[str] = Counter()
        self.rates = ClientRates(
            replace(BrokerSettings(), http_request_rate=0, **settings), self._reached, lambda: self.now_ms
        )

    def _reached(self, setting: str, what: str, peer: str) -> None:
        self.reached[setting] += 1

    def asks(self, peer: str) -> bool:
        """Return whether a request from this client is accepted."""
        try:
            self.rates.check_request(peer)
        except TooManyRequests:
            return False
        return True

    def waits_s(self, peer: str, role: str = "", *, messages: int = 0, size_bytes: int = 0) -> float:
        return self.rates.wait_s(peer, role, messages=messages, size_bytes=size_bytes)


def test_a_connection_that_asks_too_often_is_refused_until_a_token_is_there() -> None:
    rates = Rates()
    rates.rates = ClientRates(
        replace(BrokerSettings(), http_request_rate=10), rates._reached, lambda: rates.now_ms
    )
    assert [rates.asks(HERE) for _ in range(11)] == [True] * 10 + [False]
    assert rates.asks(SAME_HOST)
    rates.now_ms = 100
    assert [rates.asks(HERE) for _ in range(2)] == [True, False]
    assert rates.reached == {"VELA_HTTP_REQUEST_RATE": 2}


def test_connections_of_one_address_share_its_limit() -> None:
    rates = Rates(http_request_rate_per_address=2)
    assert [rates.asks(peer) for peer in (HERE, SAME_HOST, HERE, ELSEWHERE)] == [True, True, False, True]
    assert rates.reached == {"VELA_HTTP_REQUEST_RATE_PER_ADDRESS": 1}


def test_a_refusal_names_the_setting_and_the_rate() -> None:
    rates = Rates(http_request_rate_per_role=1).rates
    rates.check_role("shop")
    rates.check_role("")
    rates.check_role("other")
    with pytest.raises(TooManyRequests, match=r"more than 1 HTTP requests .*VELA_HTTP_REQUEST_RATE_PER_ROLE"):
        rates.check_role("shop")


def test_a_socket_is_read_later_after_too_many_messages() -> None:
    rates = Rates(websocket_message_rate=10)
    assert rates.rates.limits_sockets
    assert rates.waits_s(HERE, messages=9) == 0
    # The wait is for two messages too many, and for the next one.
    assert rates.waits_s(HERE, messages=3) == pytest.approx(0.3)
    assert rates.waits_s(SAME_HOST, messages=1) == 0
    rates.now_ms = 300
    assert rates.waits_s(HERE) == 0
    assert rates.reached == {"VELA_WEBSOCKET_MESSAGE_RATE": 1}


def test_no_wait_is_longer_than_a_second_at_once() -> None:
    rates = Rates(websocket_byte_rate=1000)
    assert rates.waits_s(HERE, size_bytes=1_000_000) == 1
    rates.now_ms = 998_000
    assert rates.waits_s(HERE) == 1
    rates.now_ms = 1_000_000
    assert rates.waits_s(HERE) == 0


def test_the_longest_of_several_waits_counts() -> None:
    rates = Rates(
        websocket_message_rate_per_role=10, websocket_byte_rate_per_address=100, websocket_byte_rate=50
    )
    assert rates.waits_s(HERE, "shop", messages=10, size_bytes=60) == pytest.approx(0.22)
    assert rates.waits_s(ELSEWHERE, "shop", messages=1) == pytest.approx(0.2)  # the wait of the role's limit
    assert rates.waits_s(ELSEWHERE, "", messages=1_000) == 0  # without a role, no limit of a role applies


def test_without_limits_nothing_is_counted() -> None:
    rates = Rates()
    assert not rates.rates.limits_sockets
    assert all(rates.asks(HERE) for _ in range(10_000))
    assert rates.waits_s(HERE, "shop", messages=10**9, size_bytes=10**12) == 0


def test_addresses_that_have_gone_take_no_memory() -> None:
    rates = Rates(http_request_rate_per_address=10)
    for number in range(5_000):
        rates.now_ms = number * 10
        assert rates.asks(f"10.0.{number // 250}.{number % 250}:1")
    (limit,) = rates.rates._requests
    assert len(limit.buckets) <= 100
