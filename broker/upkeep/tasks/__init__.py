"""Celery's tasks. Autodiscovery imports only this module, so this module imports the others, except the schedule."""

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
