"""Make the temporary folder of a job, and remove the folders that killed workers left behind."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.core.counted import counted

__all__ = ["scratch_folder", "sweep"]

logger = logging.getLogger(__name__)

_PREFIX: Final = "vela-pipeline-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for one job, and remove it at the end.

    First removes the folders that killed workers of this user left behind. The new folder is locked until the block
    or the worker ends, so that no other worker removes it.
    """
    sweep(Path(tempfile.gettempdir()))
    folder, handle = _locked()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _locked() -> tuple[Path, int]:
    """Make a folder and lock it. If another worker's sweep removes it in between, make another folder."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return folder, handle
        os.close(handle)


def sweep(parent: Path) -> int:
    """Remove this user's folders whose worker is gone, and return how many. Safe while other workers run jobs."""
    removed = 0
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # it was removed a moment ago, belongs to another user, or is no folder
        try:
            if os.fstat(handle).st_uid != os.geteuid():
                continue
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        except OSError:
            continue  # its worker still runs
        finally:
            os.close(handle)
    if removed:
        folders = counted(removed, "temporary folder", "temporary folders")
        logger.info("removed %s of jobs whose workers were killed", folders)
    return removed
