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
    """Make a folder for one job, and remove the folder at the end.

    The folder stays locked, so that other workers do not remove it.
    """
    sweep(Path(tempfile.gettempdir()))
    folder, handle = _locked()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _locked() -> tuple[Path, int]:
    # Another worker may remove the new folder before this worker locks it.
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
    """Remove the unlocked job folders of this system user, and return how many were removed."""
    removed = 0
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(handle).st_uid != os.geteuid():
                continue
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        except OSError:
            continue  # The folder's worker is still running
        finally:
            os.close(handle)
    if removed:
        folders = counted(removed, "temporary folder", "temporary folders")
        logger.info("removed %s of jobs whose workers were killed", folders)
    return removed
