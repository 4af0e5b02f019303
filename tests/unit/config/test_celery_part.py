"""The pools of Celery's workers."""

from __future__ import annotations

import pytest

from config.run.celery_part import pool_of


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_jobs_of_the_pipeline_leave_the_threads_of_other_work_free(jobs: int) -> None:
    """A job takes a thread for hours. Retention and sweeps must continue meanwhile."""
    alone = pool_of(("work",), jobs=jobs)["concurrency"]
    assert pool_of(("work", "pipeline"), jobs=jobs)["concurrency"] == alone + jobs


def test_a_worker_for_jobs_alone_runs_one_job_at_a_time() -> None:
    assert pool_of(("pipeline",), jobs=4) == {"pool": "solo"}
