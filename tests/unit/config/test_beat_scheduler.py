"""Celery beat's scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery

from config.beat_scheduler import Scheduler


@pytest.mark.parametrize("restarts", [False, True])
def test_beat_goes_on_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    app = Celery("test", broker="memory://", set_as_current=False)
    app.conf.update(
        timezone="UTC",
        result_expires=None,  # otherwise Celery adds its own task
        beat_schedule={"tick": {"task": "t", "schedule": 1.0}},
    )
    monkeypatch.setattr("celery.schedules.BaseSchedule.now", lambda _: now)
    sent: list[datetime] = []
    monkeypatch.setattr(Scheduler, "apply_entry", lambda *_args, **_kwargs: sent.append(now))

    def started() -> Scheduler:
        return Scheduler(app=app, schedule_filename=str(tmp_path / "schedule"))

    def run_until(time: datetime) -> None:
        nonlocal now
        now = time
        while scheduler.tick() == 0:
            pass

    scheduler = started()
    run_until(now + timedelta(seconds=1))
    assert sent == [now]
    if restarts:
        scheduler.close()
        scheduler = started()
    run_until(now - timedelta(hours=1))
    run_until(now + timedelta(seconds=1))
    assert sent[1:] == [now]
    scheduler.close()
