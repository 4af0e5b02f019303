"""Decide which tests of a parallel run go to the same worker."""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadFileScheduling

__all__ = ["FilesAndFolders"]

_ONE_WORKER: Final = ("tests/integration/pipeline/",)
"""Folders whose files share something that is slow to start: a Spark session and a Vela."""


class FilesAndFolders(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives a worker a file at a time, or a whole folder of `_ONE_WORKER`."""

    def _split_scope(self, nodeid: str) -> str:
        return next(
            (folder for folder in _ONE_WORKER if nodeid.startswith(folder)), super()._split_scope(nodeid)
        )
