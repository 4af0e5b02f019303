"""Celery beat's schedule."""

from __future__ import annotations

from typing import Any

from broker.conf import broker_settings

__all__ = ["beat_schedule"]

_SWEEP_S = 5.0
_POLICIES_S = 5.0
_ACTS_S = 60.0
_HISTORY_S = 10.0
_STORIES_S = 10.0
_PIPELINE_S = 2.0
_CHECK_PIPELINE_S = 10.0
_ALERTS_S = 10.0
_SEND_ALERTS_S = 5.0


def beat_schedule() -> dict[str, dict[str, Any]]:
    """Return the tasks that beat sends, and their periods.

    A task expires after two periods, because a newer task does the same work.
    """
    period_s = broker_settings().tick_ms / 1000
    lifetime_s = broker_settings().lifetime_check_ms / 1000
    return {
        "tick": {
            "task": "broker.upkeep.tasks.tick",
            "schedule": period_s,
            "options": {"queue": "tick", "expires": 2 * period_s},
        },
        "policies": {
            "task": "broker.upkeep.tasks.check_policies",
            "schedule": _POLICIES_S,
            "options": {"queue": "work", "expires": 2 * _POLICIES_S},
        },
        "lifetime of data": {
            "task": "broker.upkeep.tasks.lifetime",
            "schedule": lifetime_s,
            "options": {"queue": "work", "expires": 2 * lifetime_s},
        },
        "sweep dead sessions": {
            "task": "broker.upkeep.tasks.sweep_dead_sessions",
            "schedule": _SWEEP_S,
            "options": {"queue": "work", "expires": 2 * _SWEEP_S},
        },
        "sweep acts": {
            "task": "broker.upkeep.tasks.sweep_acts",
            "schedule": _ACTS_S,
            "options": {"queue": "work", "expires": 2 * _ACTS_S},
        },
        "roll up history": {
            "task": "broker.upkeep.tasks.roll_up_history",
            "schedule": _HISTORY_S,
            "options": {"queue": "work", "expires": 2 * _HISTORY_S},
        },
        "expire delivery stories": {
            "task": "broker.upkeep.tasks.expire_stories",
            "schedule": _STORIES_S,
            "options": {"queue": "work", "expires": 2 * _STORIES_S},
        },
        "run pipeline": {
            "task": "broker.upkeep.tasks.run_pipeline",
            "schedule": _PIPELINE_S,
            "options": {"queue": "pipeline", "expires": 2 * _PIPELINE_S},
        },
        "check pipeline": {
            "task": "broker.upkeep.tasks.check_pipeline",
            "schedule": _CHECK_PIPELINE_S,
            "options": {"queue": "work", "expires": 2 * _CHECK_PIPELINE_S},
        },
        "check alerts": {
            "task": "broker.upkeep.tasks.check_alerts",
            "schedule": _ALERTS_S,
            "options": {"queue": "work", "expires": 2 * _ALERTS_S},
        },
        "send alerts": {
            "task": "broker.upkeep.tasks.send_alerts",
            "schedule": _SEND_ALERTS_S,
            "options": {"queue": "work", "expires": 2 * _SEND_ALERTS_S},
        },
    }
