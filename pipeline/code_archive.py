"""The packages `pipeline` and `vela` as one zip file, for executors on machines where Vela is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.abc import Traversable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, ZipFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["send_code", "write_code_archive"]

_PACKAGES: Final = ("pipeline", "vela")
_SUFFIXES: Final = (".py", ".sql")


def send_code(spark: SparkSession) -> None:
    """Let the executors of a cluster import the packages that this process runs. Safe to repeat.

    Does nothing with a local master, or with Spark Connect, where the server must have the packages.
    """
    context = getattr(spark, "sparkContext", None)  # a Spark Connect session has none
    if context is None or context.master.startswith("local"):
        return
    # Executors fetch the file from the driver as long as the session lasts. Spark removes the folder at its end.
    archive = Path(context._temp_dir, "vela-code.zip")  # noqa: SLF001 - no other folder lives as long
    if not archive.exists():
        write_code_archive(archive)
        context.addPyFile(str(archive))


def write_code_archive(path: Path) -> None:
    """Write the code that this process runs, so that executors run the same. The archive contains no other packages."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for name, file in _files_in(files(package), package):
                archive.writestr(name, file.read_bytes())


def _files_in(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        inside = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _files_in(entry, inside)
        elif entry.name.endswith(_SUFFIXES):
            yield inside, entry
