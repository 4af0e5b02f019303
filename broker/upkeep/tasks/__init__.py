"""Celery's tasks. Importing this module registers them all: autodiscovery looks at no other."""

from broker.upkeep.tasks import heartbeat, history, lifetime, policies, sweep, tick

__all__ = ["heartbeat", "history", "lifetime", "policies", "sweep", "tick"]
