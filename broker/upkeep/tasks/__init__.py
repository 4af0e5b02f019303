"""Celery's tasks. Importing this module registers them all: autodiscovery imports only this one."""

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
