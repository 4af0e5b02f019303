"""The storage of ledger files: a folder, or a bucket of an object storage, through Arrow's file systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from pipeline.errors import LedgerFileDamaged, LedgerFileMissing, OffloadUnavailable

__all__ = ["FileStorage"]

_RETRY_S: Final = 10
_FOLDER_ATTEMPTS: Final = 10


class FileStorage:
    """Files by name below one URL. Every method raises OffloadUnavailable if the storage cannot be used."""

    def __init__(self, url: str) -> None:
        """Open the storage of a URL.

        The URL is `file:///folder`, `s3://bucket/folder?region=…&endpoint_override=…`, `gs://…`, `abfs://…` or
        `hdfs://…`. Credentials come from the environment, as the storage's own tools read them.
        """
        parts = urlsplit(url)
        self._shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        self._is_local = parts.scheme == "file"
        with self._errors("use", ""):
            if self._is_local:
                self._filesystem: Any = fs.LocalFileSystem()
                self._root = unquote(parts.path).rstrip("/")
            else:
                self._filesystem, root = fs.FileSystem.from_uri(_with_limit(url))
                self._root = root.rstrip("/")

    def prepare(self) -> None:
        """Make the folder if it does not exist yet. A bucket must exist."""
        with self._errors("use", ""):
            if self._is_local:
                os.makedirs(self._root, exist_ok=True)

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """Open a new file for writing, durable after the block. A block that fails may leave an unfinished file."""
        path = self._path(name)
        with self._errors("write", name):
            with self._new_file(path) as stream:
                yield stream
            if self._is_local:
                for each in (path, os.path.dirname(path), self._root):
                    _sync(each)

    @contextmanager
    def reading(self, name: str) -> Iterator[Any]:
        """Open a file. Raises LedgerFileMissing, and LedgerFileDamaged if Arrow cannot read the file in the block."""
        with self._errors("read", name), self._filesystem.open_input_file(self._path(name)) as file:
            yield file

    def size_bytes(self, name: str) -> int:
        """Return the size of a file. Raises LedgerFileMissing."""
        with self.reading(name) as file:
            return int(file.size())

    def delete(self, name: str) -> None:
        """Delete a file, and its topic's folder if the file was the last one in it. Safe to repeat."""
        path = self._path(name)
        with suppress(LedgerFileMissing), self._errors("delete", name):
            self._filesystem.delete_file(path)
        if self._is_local and "/" in name:
            with suppress(OSError):
                os.rmdir(os.path.dirname(path))  # refuses a folder that has a file

    def _new_file(self, path: str) -> Any:
        """Open a new file for writing, and make its folder, which `delete` of another process may remove meanwhile."""
        for _ in range(_FOLDER_ATTEMPTS if self._is_local else 0):
            with suppress(FileNotFoundError, FileExistsError):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                return self._filesystem.open_output_stream(path)
        return self._filesystem.open_output_stream(path)

    def _has_root(self) -> bool:
        """Return whether the folder or bucket exists; False if the storage does not answer."""
        root = self._root if self._is_local else self._root.partition("/")[0]
        try:
            return bool(self._filesystem.get_file_info(root).type != fs.FileType.NotFound)
        except (OSError, pa.ArrowException):
            return False

    def _path(self, name: str) -> str:
        if ".." in name.split("/") or name.startswith("/"):
            raise LedgerFileDamaged(f"{name!r} is not the name of a ledger file")
        return f"{self._root}/{name}"

    @contextmanager
    def _errors(self, what: str, name: str) -> Iterator[None]:
        where = f"{self._shown.rstrip('/')}/{name}"
        try:
            yield
        except FileNotFoundError:
            # A volume that is not mounted must not look like a file that was deleted.
            if not self._has_root():
                raise OffloadUnavailable(
                    f"cannot {what} {where}: its {'folder' if self._is_local else 'bucket'} does not exist"
                ) from None
            raise LedgerFileMissing(f"cannot {what} {where}: there is no such file") from None
        except (OSError, pa.ArrowException) as error:
            # Arrow's errors about content have no errno, but neither have those about an object storage's network.
            is_content = isinstance(error, pa.ArrowException) or (self._is_local and error.errno is None)
            kind = LedgerFileDamaged if is_content and what == "read" else OffloadUnavailable
            raise kind(f"cannot {what} {where}: {_line(error)}") from error


def _with_limit(url: str) -> str:
    """Return the URL with a limit for retries: for Google's storage, the library would retry for 15 minutes."""
    parts = urlsplit(url)
    if parts.scheme not in ("gs", "gcs") or "retry_limit_seconds" in parts.query:
        return url
    return f"{url}{'&' if parts.query else '?'}retry_limit_seconds={_RETRY_S}"


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
