"""Celery's tasks, imported here because autodiscovery imports only this module."""

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
