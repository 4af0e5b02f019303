"""Request a cursor reset as the console does, through `broker.acts.requests`, and print how long it took.

`python -m bench.load.act_caller TOPIC SUBSCRIPTION TIMES JSON-PARAMETERS` prints a JSON object for each reset.
`plan_ms` and `apply_ms` are the caller's round trips. `owner_ms` is the time from the request's row to the result's,
both by PostgreSQL's clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

import django

from tests.support.vela import VelaProcess

__all__ = ["ActTimes", "reset_times"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActTimes:
    """How long one plan and its apply took."""

    plan_ms: float  # the caller's round trip
    apply_ms: float
    owner_ms: float  # of apply, from request to result
    replayed_messages: int


def reset_times(
    vela: VelaProcess, topic: str, subscription: str, times: int, parameters: Mapping[str, object]
) -> list[ActTimes]:
    """Plan and apply a reset `times` times, in a separate process, which sets up Django."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.load.act_caller"),
            *(topic, subscription, str(times), json.dumps(parameters)),
        ],
        env={**vela.environment, "DATABASE_URL": vela.database_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [ActTimes(**json.loads(line)) for line in done.stdout.splitlines()]


def main() -> None:
    """Plan and apply the resets, and print how long each took."""
    topic, subscription, times, parameters = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from broker.acts import requests as acts

    for _ in range(int(times)):
        began = time.perf_counter()
        planned = acts.plan(
            "reset",
            topic=topic,
            subscription=subscription,
            parameters=json.loads(parameters),
            who="bench",
            origin="bench",
        )
        between = time.perf_counter()
        applied = acts.apply(planned.id, who="bench", origin="bench")
        ended = time.perf_counter()
        if applied.state != "applied" or applied.finished_at is None:
            raise SystemExit(f"the act is {applied.state}: {applied.error}")
        owner_s = (applied.finished_at - applied.requested_at).total_seconds()
        print(
            json.dumps(
                {
                    "plan_ms": 1000 * (between - began),
                    "apply_ms": 1000 * (ended - between),
                    "owner_ms": 1000 * owner_s,
                    "replayed_messages": (applied.result or {}).get("replayed_messages", 0),
                }
            )
        )


if __name__ == "__main__":
    main()
