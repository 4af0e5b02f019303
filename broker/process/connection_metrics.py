"""Metrics of connections and of the TLS certificate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from broker.listening.connection_limits import ConnectionLimits
    from broker.listening.tls_certificates import TlsCertificates

__all__ = ["ConnectionMetrics"]


class ConnectionMetrics(Collector):
    """Reads the connection counts and the certificate's expiry."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self.certificates: TlsCertificates | None = None

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "vela_connections", "open connections of clients, over all ports", value=self._limits.open
        )
        reached = CounterMetricFamily(
            "vela_connection_limits_reached_total",
            "how often a connection reached a limit, labelled with the limit's setting",
            labels=("setting",),
        )
        for setting, times in self._limits.times_reached.items():
            reached.add_metric((setting,), times)
        yield reached
        yield CounterMetricFamily(
            "vela_connection_waits_total",
            "how often a connection had to wait for a later turn of the event loop",
            value=self._limits.loop_time.waits,
        )
        yield CounterMetricFamily(
            "vela_tls_handshake_failures_total",
            "TLS handshakes that failed",
            value=self._limits.failed_tls_handshakes,
        )
        expires = GaugeMetricFamily(
            "vela_tls_certificate_expires_seconds",
            "seconds until the TLS certificate in use expires; negative once it has expired",
        )
        if self.certificates is not None:
            expires.add_metric((), self.certificates.expires_s)
        yield expires
