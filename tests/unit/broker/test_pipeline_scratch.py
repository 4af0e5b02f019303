"""Temporary folders of jobs: those of killed workers are removed, and others stay."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import pytest

from broker.upkeep.pipeline.scratch import scratch_folder, sweep


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_exists_as_long_as_its_job(parent: Path) -> None:
    with scratch_folder() as first, scratch_folder() as second:
        (first / "spill").write_text("messages")
        assert sweep(parent) == 0
        assert (first.exists(), second.exists()) == (True, True)
    assert list(parent.iterdir()) == []


def test_the_next_job_removes_what_a_killed_worker_left(
    parent: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pid = os.fork()
    if not pid:  # like a worker that is killed: its `with` block never ends
        with scratch_folder() as folder:
            (folder / "spill").write_text("messages")
            os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(parent.glob("vela-pipeline-*/spill"))) == 1
    with scratch_folder() as mine:
        assert list(parent.iterdir()) == [mine]
    assert caplog.messages == ["removed 1 temporary folder of jobs whose workers were killed"]


def test_other_folders_and_links_stay(parent: Path) -> None:
    (parent / "elsewhere").mkdir()
    (parent / "vela-pipeline-link").symlink_to(parent / "elsewhere")
    (parent / "vela-other").mkdir()
    assert sweep(parent) == 0
    assert len(list(parent.iterdir())) == 3
