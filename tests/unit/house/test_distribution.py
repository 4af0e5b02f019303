"""Files of a parallel run stay together if they share something that is slow to start."""

from __future__ import annotations

from config.environment import PROJECT_DIR
from tests.support.distribution import _ONE_WORKER, FilesAndFolders


def test_a_folder_or_a_file_is_the_unit_of_a_worker() -> None:
    scope_of = FilesAndFolders._split_scope
    scheduler = FilesAndFolders.__new__(FilesAndFolders)
    assert {
        scope_of(scheduler, f"{folder}{name}")
        for folder in _ONE_WORKER
        for name in ("test_a.py::b", "test_c.py::d")
    } == set(_ONE_WORKER)
    assert scope_of(scheduler, "tests/unit/test_a.py::b[c::d]") == "tests/unit/test_a.py"
    assert all((PROJECT_DIR / folder).is_dir() for folder in _ONE_WORKER)
