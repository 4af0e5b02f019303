"""Celery's tasks. Importing this registers them all: autodiscovery looks at this module only."""

from broker.upkeep.tasks import heartbeat, lifetime, policies, sweep, tick

__all__ = ["heartbeat", "lifetime", "policies", "sweep", "tick"]
