"""Celery's tasks. Importing this module registers all of them, because autodiscovery imports no other module."""

from broker.upkeep.tasks import (
    alerts,
    connections,
    heartbeat,
    history,
    lifetime,
    pipeline,
    policies,
    sweep,
    tick,
)

__all__ = [
    "alerts",
    "connections",
    "heartbeat",
    "history",
    "lifetime",
    "pipeline",
    "policies",
    "sweep",
    "tick",
]
