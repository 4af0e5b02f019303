"""Requests of Pulsar's admin API that Vela does not serve, and the reasons."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ABSENT", "why_absent"]

_ONE_CLUSTER: Final = "Vela has one cluster, which its settings describe"
_ONE_BROKER: Final = "Vela runs one broker and does not split namespaces"
_NO_PAUSE: Final = "Vela stores any number of gaps between acknowledged messages, so it never needs to pause"
_SETTINGS: Final = "settings are environment variables: change them and restart"

# {rest} matches the rest of a path, and any other name in braces matches one path segment.
ABSENT: Final[dict[str, str]] = {
    "PUT, POST, DELETE /admin/v2/clusters/{cluster}": _ONE_CLUSTER,
    "POST, DELETE /admin/v2/clusters/{cluster}/{rest}": _ONE_CLUSTER,
    "POST, DELETE /admin/v2/brokers/configuration/{rest}": _SETTINGS,
    "GET /admin/v2/brokers/internal-configuration": "the only metadata store is PostgreSQL",
    "GET /admin/v2/brokers/backlog-quota-check": "the broker checks quotas every five seconds",
    "GET /admin/v2/broker-stats/metrics": "read /metrics",
    "GET /admin/v2/broker-stats/mbeans": "Vela does not run on a JVM",
    "GET /admin/v2/broker-stats/load-report": _ONE_BROKER,
    "GET /admin/v2/broker-stats/allocator-stats/{rest}": "Vela does not run on a JVM",
    "PUT /admin/v2/namespaces/{tenant}/{namespace}/{bundle}/split": _ONE_BROKER,
    "POST /admin/v2/namespaces/{tenant}/{namespace}/{bundle}/clearBacklog": _ONE_BROKER,
    "PUT, DELETE /admin/v2/{domain}/{tenant}/{namespace}/{topic}/properties": "properties are set at creation",
    "GET /admin/v2/{domain}/{tenant}/{namespace}/{topic}/internal-info": "read internalStats",
    "GET /admin/v2/{domain}/{tenant}/{namespace}/{topic}/backlog": "read stats, whose backlogs are exact",
    "POST /admin/v2/namespaces/{tenant}/{namespace}/resourcegroup/{name}": "Vela has no resource groups",
    "GET, POST, DELETE /admin/v2/namespaces/{tenant}/{namespace}/dispatcherPauseOnAckStatePersistent": _NO_PAUSE,
    "GET, PUT, DELETE /admin/v2/namespaces/{tenant}/{namespace}/property/{rest}": "Vela has no such policy",
    "GET, POST, DELETE /admin/v2/{domain}/{tenant}/{namespace}/{topic}/dispatcherPauseOnAckStatePersistent": _NO_PAUSE,
    "GET, POST, DELETE /admin/v2/{domain}/{tenant}/{namespace}/{topic}/{subscription}/dispatchRate": (
        "set subscriptionDispatchRate, which is the same for all subscriptions of a topic"
    ),
    "GET /admin/v2/schemas/{tenant}/{namespace}/{topic}/metadata": "read …/schemas, which has every version",
    "GET /admin/v2/resource-quotas": _ONE_BROKER,
    "GET /admin/v2/resource-quotas/{rest}": _ONE_BROKER,
    "GET /admin/v2/resourcegroups": "Vela has no resource groups",
    "GET /admin/v2/resourcegroups/{rest}": "Vela has no resource groups",
    "GET /admin/v2/bookies/{rest}": "Vela stores messages in PostgreSQL",
    "GET /admin/v2/proxy-stats/{rest}": "WebSockets are served by the broker: read /metrics",
    "GET /admin/v2/worker/{rest}": "Vela has no functions",
    "GET /admin/v2/functions/{rest}": "Vela has no functions",
    "GET /admin/v3/{rest}": "Vela has no functions, connectors, packages or transactions",
}


def _pattern(line: str) -> re.Pattern[str]:
    path = line.rpartition(" ")[2]
    parts = (
        ".+" if part == "{rest}" else "[^/]+" if part.startswith("{") else re.escape(part)
        for part in path.split("/")
    )
    return re.compile("/".join(parts))


_PATTERNS: Final = [(_pattern(line), reason) for line, reason in ABSENT.items()]


def why_absent(path: str) -> str:
    """Return the reason that `ABSENT` gives for a path, or "" for any other path."""
    return next((reason for pattern, reason in _PATTERNS if pattern.fullmatch(path)), "")
