"""A folder that appears under its name only when it is complete."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["finished_folder", "place_in", "require_shared"]


def place_in(folder: Path, name: str) -> Path:
    """Return the path of a name inside a folder. Raises InvalidOption if a link on the way leads out of the folder."""
    place = folder / name
    found = Path(os.path.realpath(place))
    if not found.is_relative_to(os.path.realpath(folder)):
        raise InvalidOption(
            f"{place} is a link to {found}, outside of {folder}: jobs use only files inside it"
        )
    return place


@contextmanager
def finished_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside `target`, and rename it to `target` if the block succeeds.

    A killed process leaves a folder whose name begins with a dot. The next process with this target removes the folder.
    Raises InvalidOption if the target exists or its parent cannot be written.
    """
    if target.exists():
        raise InvalidOption(f"{target} already exists: choose another name or remove it")
    unfinished = target.with_name(f".{target.name}.unfinished-{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        unfinished.mkdir()
        lock = os.open(unfinished, os.O_RDONLY)
    except OSError as error:
        raise InvalidOption(f"cannot write to {target.parent}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # so a process that removes leftovers sees that this one is alive
        yield unfinished
        _make_durable(unfinished)
        try:
            unfinished.rename(target)
        except OSError as error:
            raise InvalidOption(f"cannot rename the finished folder to {target}: {error.strerror}") from None
        _sync(target.parent)
    finally:
        os.close(lock)
        shutil.rmtree(unfinished, ignore_errors=True)


def require_shared(spark: SparkSession, folder: Path) -> None:
    """Raise InvalidOption if an executor does not see the folder: it would write its files to its own disk."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return
    path, tasks = os.path.abspath(folder), 4 * context.defaultParallelism
    if not all(context.parallelize(range(tasks), tasks).map(lambda _: os.path.isdir(path)).collect()):
        raise InvalidOption(
            f"an executor of {context.master} has no {path}: use a folder that the driver and all executors share"
            " (VELA_PIPELINE_DIR), such as a network file system"
        )


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f".{_literal(target.name)}.unfinished-*"):
        with suppress(OSError):
            lock = os.open(leftover, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(leftover)
            finally:
                os.close(lock)


def _literal(name: str) -> str:
    """Return a pattern that matches this name alone."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _make_durable(folder: Path) -> None:
    for path in folder.iterdir():
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
