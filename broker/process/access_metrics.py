"""Metrics of authentication."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from broker.access.access import Access

__all__ = ["AccessMetrics"]


class AccessMetrics(Collector):
    """Reports authentications, and whether the keys of each OpenID issuer could be read."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def collect(self) -> Iterator[Metric]:
        for name, text, counts in (
            ("pulsar_authentication_success_total", "clients and requests let in", self._access.successes),
            ("pulsar_authentication_failures_total", "clients and requests refused", self._access.failures),
        ):
            family = CounterMetricFamily(name, f"{text}, by method", labels=("auth_method",))
            for method, count in counts.items():
                family.add_metric((method,), count)
            yield family
        up = GaugeMetricFamily(
            "vela_openid_issuer_up",
            "1 if the last attempt to read the issuer's keys succeeded",
            labels=("issuer",),
        )
        age = GaugeMetricFamily(
            "vela_openid_keys_age_seconds", "seconds since the issuer's keys were read", labels=("issuer",)
        )
        for issuer in self._access.issuers():
            up.add_metric((issuer.issuer,), issuer.is_up)
            if issuer.keys_age_s is not None:
                age.add_metric((issuer.issuer,), issuer.keys_age_s)
        yield up
        yield age
