"""Histograms of how long publishes, deliveries and acks take."""

from __future__ import annotations

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram

__all__ = ["Instruments"]

# Without this call, prometheus_client would add a `_created` series to each histogram.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_COMMIT_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_AGE_BUCKETS_S = (*_COMMIT_BUCKETS_S, 60.0, 600.0, 3600.0, 86_400.0)


class Instruments:
    """The histograms of one broker and their registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.publish_latency = Histogram(
            "vela_publish_latency_seconds",
            "from the first publish of a group, or from the start of the group before it if that is later, to its"
            " receipts; a group is what one statement stores in one topic",
            buckets=_COMMIT_BUCKETS_S,
            registry=self.registry,
        )
        self.dispatch_latency = Histogram(
            "vela_dispatch_latency_seconds",
            "age of the oldest entry, since its append, when a group is first written to a subscription's consumers",
            buckets=_AGE_BUCKETS_S,
            registry=self.registry,
        )
        self.ack_latency = Histogram(
            "vela_ack_latency_seconds",
            "from a subscription's first ack that is not stored yet to the end of the flush that stores it",
            buckets=_COMMIT_BUCKETS_S,
            registry=self.registry,
        )
