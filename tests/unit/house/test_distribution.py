"""Files of a parallel run stay together if they share something that is slow to start."""

from __future__ import annotations

from config.environment import PROJECT_DIR
from tests.support.distribution import _ONE_WORKER, FilesAndFolders


def test_a_worker_is_given_a_whole_file_or_a_whole_folder() -> None:
    scope_of = FilesAndFolders._split_scope
    scheduler = FilesAndFolders.__new__(FilesAndFolders)
    assert {
        scope_of(scheduler, f"{folder}{name}")
        for folder in _ONE_WORKER
        for name in ("test_a.py::b", "test_c.py::d")
    } == set(_ONE_WORKER)
    assert scope_of(scheduler, "tests/unit/test_a.py::b[c::d]") == "tests/unit/test_a.py"
    assert all((PROJECT_DIR / folder).is_dir() for folder in _ONE_WORKER)
