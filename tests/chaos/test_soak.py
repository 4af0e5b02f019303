"""Tests of `make pipeline-soak` without Spark: the soak leaves no driver behind, and its table shows the kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from config.environment import PROJECT_DIR
from tests.chaos.job_runs import Target
from tests.chaos.job_soak import Hit
from tests.chaos.jobs import table_of
from tests.chaos.stopping import lives
from tests.support.waiting import wait_until

# A driver that starts another process in a new group, as Python starts Java.
_SOAK = """
import sys, time
from pathlib import Path
from tests.chaos.stopping import end_on_sigterm, started_driver
end_on_sigterm()
below = (
    "import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True);"
    " print(p.pid, flush=True); p.wait()"
)
with started_driver([sys.executable, "-c", below], {}, Path(sys.argv[1])) as driver:
    print(driver.pid, flush=True)
    time.sleep(600)
"""


def test_sigterm_ends_the_driver_and_what_it_started(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with subprocess.Popen(
        [sys.executable, "-c", _SOAK, str(output)],
        cwd=PROJECT_DIR,
        env={**os.environ, "PYTHONPATH": str(PROJECT_DIR)},
        stdout=subprocess.PIPE,
    ) as soak:
        assert soak.stdout is not None
        driver = int(soak.stdout.readline())
        below = int(wait_until(lambda: output.read_text(), "the driver's own process", timeout_s=60.0))
        assert lives(driver)
        assert lives(below)
        soak.send_signal(signal.SIGTERM)
        assert soak.wait(60.0) == 128 + signal.SIGTERM
    assert not lives(driver)
    wait_until(lambda: not lives(below), "the end of the driver's processes")


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux ends a driver whose soak is killed"
)
def test_sigkill_ends_the_driver(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SOAK, str(tmp_path / "output")],
        cwd=PROJECT_DIR,
        env={**os.environ, "PYTHONPATH": str(PROJECT_DIR)},
        stdout=subprocess.PIPE,
    ) as soak:
        assert soak.stdout is not None
        driver = int(soak.stdout.readline())
        below = int(wait_until(lambda: (tmp_path / "output").read_text(), "its process", timeout_s=60.0))
        soak.kill()
    try:
        wait_until(lambda: not lives(driver), "the end of the driver")
    finally:
        os.kill(below, signal.SIGKILL)  # unlike Java, this process does not end with a killed driver


def test_the_table_has_a_line_for_each_job_and_target() -> None:
    def hit(job: str, target: Target, stage: str, error: str = "") -> Hit:
        return Hit(job=job, target=target, stage=stage, after_s=1.0, error=error)

    table = table_of(
        [
            hit("import", Target.WORKER, "publish files", "its worker stopped"),
            hit("import", Target.EXECUTOR, ""),
            hit("import", Target.WORKER, "publish files", "its worker stopped"),
            hit("import", Target.WORKER, "read all files"),
        ]
    )

    rows = [line.split("  ") for line in table.splitlines()[1:]]
    assert [[cell.strip() for cell in row if cell] for row in rows] == [
        ["import", "Vela's worker", "3", "1", "2", "publish files 2, read all files 1"],
        ["import", "an executor", "1", "1", "0", "before the first 1"],
    ]
