"""Files of offloaded ledgers: what is written is read back, in bounded memory, and damage is found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import EntriesMissing, LedgerFileDamaged, LedgerFileMissing, OffloadUnavailable
from pipeline.ledger_files import writer
from pipeline.ledger_files.columns import ColumnsChecksum, batch_of
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.ledger_files.rows import EntryRow, Manifest
from pipeline.ledger_files.storage import FileStorage
from pipeline.ledger_files.writer import verify, write_ledger

NAME = "7/12-a.parquet"
CACHE_BYTES = 1 << 20

Write = Callable[[list[EntryRow]], Manifest]


def ledger(count: int, *, size_bytes: int = 10, first: int = 0) -> list[EntryRow]:
    """Return a ledger's entries: two messages each, one entry every ten milliseconds."""
    return [
        EntryRow(
            at,
            2,
            1,
            None if at % 3 else at,
            0,
            1_000 + 10 * at,
            2 * (at + 1),
            size_bytes * (at + 1),
            bytes([at % 251]) * size_bytes,
        )
        for at in range(first, first + count)
    ]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a folder with a space in its name."""
    return (tmp_path / "off load").as_uri()


@pytest.fixture
def write(url: str, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file with row groups of four entries."""
    monkeypatch.setattr(writer, "GROUP_ENTRIES", 4)
    return lambda rows: write_ledger(FileStorage(url), NAME, rows, topic_id=7, ledger_id=12)


@pytest.fixture
def files(url: str) -> LedgerFiles:
    """A reader of the folder."""
    return LedgerFiles(url, cache_bytes=CACHE_BYTES)


def test_ranges_and_chosen_entries_are_read_as_they_were_written(write: Write, files: LedgerFiles) -> None:
    rows = ledger(10)
    manifest = write(rows)
    assert (manifest.entries, manifest.messages, manifest.size_bytes) == (10, 20, 100)
    assert files.verify(NAME) == manifest
    for first in range(10):
        for last in range(first, 12):
            assert files.read(NAME, first, last, more_bytes=1_000) == rows[first : last + 1]
    assert files.read_some(NAME, [9, 0, 5, 30]) == [rows[0], rows[5], rows[9]]
    assert files.read_index(NAME, 3, 4) == [row._replace(data=b"") for row in rows[3:5]]
    assert files.read_counts(NAME, 3, 5) == [(3, 8, 40), (4, 10, 50), (5, 12, 60)]
    assert files.entry(NAME, 10) is None


def test_a_read_ends_before_its_limit_in_bytes_but_has_the_first_entry(
    write: Write, files: LedgerFiles
) -> None:
    rows = ledger(10)
    write(rows)
    assert files.read(NAME, 2, 9, more_bytes=0) == rows[2:3]
    assert files.read(NAME, 2, 9, more_bytes=39) == rows[2:6]
    assert files.read(NAME, 2, 9, more_bytes=40) == rows[2:7]


def test_the_first_entry_after_a_time_is_found_by_binary_search(write: Write, files: LedgerFiles) -> None:
    write(ledger(10))
    assert [files.first_after(NAME, time_ms) for time_ms in (0, 1_000, 1_001, 1_090, 1_091)] == [
        0,
        0,
        1,
        9,
        None,
    ]


def test_the_cache_stays_within_its_limit(write: Write, url: str) -> None:
    write(ledger(40, size_bytes=1_000))
    files = LedgerFiles(url, cache_bytes=10_000)
    for at in range(40):
        assert files.entry(NAME, at) is not None
        assert len(files.read(NAME, at, at, more_bytes=0)) == 1
        assert 0 < files.size_bytes <= 10_000


def test_an_entry_that_is_missing_refuses_the_file(write: Write) -> None:
    with pytest.raises(EntriesMissing, match="entry 12:3 is missing"):
        write(ledger(3) + ledger(2, first=4))


def test_damage_is_found(write: Write, files: LedgerFiles, tmp_path: Path) -> None:
    noise = Random(1).randbytes(1_000)  # zstd cannot compress it, so the file contains these bytes
    write([row._replace(data=noise) for row in ledger(3)])
    path = tmp_path / "off load" / NAME
    whole = path.read_bytes()
    at = whole.index(noise[500:510])
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(LedgerFileDamaged):
        files.verify(NAME)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LedgerFileDamaged):
        files.read(NAME, 0, 9, more_bytes=10_000)


def test_the_file_of_another_ledger_is_not_read(write: Write, files: LedgerFiles, tmp_path: Path) -> None:
    write(ledger(3))
    folder = tmp_path / "off load" / "7"
    (folder / "13-b.parquet").write_bytes((tmp_path / "off load" / NAME).read_bytes())
    with pytest.raises(LedgerFileDamaged, match=r"7/13-b\.parquet has the entries of ledger 12"):
        files.read("7/13-b.parquet", 0, 2, more_bytes=100)


def test_a_checksum_of_other_rows_is_found(write: Write, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ColumnsChecksum, "hexdigest", lambda _: "0" * 64)
    write(ledger(3))
    monkeypatch.undo()
    with pytest.raises(LedgerFileDamaged, match="was written with 3 and 000"):
        verify(FileStorage(url), NAME)


def test_a_file_that_was_deleted_is_missing(write: Write, files: LedgerFiles) -> None:
    write(ledger(3))
    assert files.read(NAME, 0, 2, more_bytes=100)
    files.delete(NAME)
    files.delete(NAME)
    assert files.size_bytes == 0
    with pytest.raises(LedgerFileMissing):
        files.read(NAME, 0, 2, more_bytes=100)


def test_the_folder_of_a_topic_goes_with_its_last_file(
    write: Write, files: LedgerFiles, url: str, tmp_path: Path
) -> None:
    write(ledger(3))
    write_ledger(FileStorage(url), "7/13-b.parquet", ledger(1), topic_id=7, ledger_id=13)
    files.delete(NAME)
    assert (tmp_path / "off load" / "7").is_dir()
    files.delete("7/13-b.parquet")
    assert list((tmp_path / "off load").iterdir()) == []
    files.delete("7/13-b.parquet")
    assert (tmp_path / "off load").is_dir()


def test_a_file_is_written_although_its_folder_is_removed_meanwhile(
    write: Write, files: LedgerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.makedirs
    removed: list[str] = []

    def make_and_lose(path: str, *, exist_ok: bool) -> None:
        make(path, exist_ok=exist_ok)
        if not removed:
            os.rmdir(path)  # another process has deleted the topic's last file
            removed.append(path)

    monkeypatch.setattr(os, "makedirs", make_and_lose)
    write(ledger(3))
    assert removed
    assert len(files.read(NAME, 0, 2, more_bytes=100)) == 3


def test_without_pyarrow_the_error_says_what_to_install(
    files: LedgerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pipeline.ledger_files.storage")
    missing: dict[str, ModuleType | None] = dict.fromkeys(("pyarrow", "pyarrow.fs"))
    for name, module in missing.items():
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(OffloadUnavailable, match=r"in Vela's folder run pip install '\.\[offload\]'"):
        files.entry(NAME, 0)


def test_without_a_url_the_error_names_the_setting() -> None:
    with pytest.raises(OffloadUnavailable, match="VELA_OFFLOAD_URL"):
        LedgerFiles("", cache_bytes=0).entry(NAME, 0)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=5), st.none() | st.integers(0, 9)), min_size=1), st.integers(1, 9)
)
def test_the_checksum_does_not_depend_on_the_batches(
    given_rows: list[tuple[bytes, int | None]], at: int
) -> None:
    rows = [EntryRow(n, 1, 0, key, 0, 5, n, n, data) for n, (data, key) in enumerate(given_rows)]
    whole, parts = ColumnsChecksum(), ColumnsChecksum()
    whole.add(batch_of(rows))
    for piece in (rows[:at], rows[at:]):
        if piece:
            parts.add(batch_of(piece))
    assert whole.hexdigest() == parts.hexdigest()
    sliced = ColumnsChecksum()
    for begin in range(0, len(rows), at):
        sliced.add(batch_of(rows).slice(begin, at))
    assert sliced.hexdigest() == whole.hexdigest()
    other = ColumnsChecksum()
    other.add(batch_of([*rows[:-1], rows[-1]._replace(data=rows[-1].data + b"x")]))
    assert other.hexdigest() != whole.hexdigest()
