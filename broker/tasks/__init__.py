"""Celery's tasks. Importing this registers them all: autodiscovery looks at this module only."""

from broker.tasks import tick

__all__ = ["tick"]
