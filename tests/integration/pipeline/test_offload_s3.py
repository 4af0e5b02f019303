"""Ledger files in S3, which moto imitates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.errors import LedgerFileMissing, OffloadUnavailable
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.ledger_files.storage import FileStorage
from pipeline.ledger_files.writer import verify, write_ledger
from tests.support.s3_server import CREDENTIALS, S3Server, s3_server
from tests.unit.pipeline.test_ledger_files import ledger

NAME = "7/12-a.parquet"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server() as server:
            yield server


@pytest.fixture
def s3_url(server: S3Server) -> Iterator[str]:
    """The URL of a bucket, with the options that name its server."""
    yield server.url
    server.fault = ""


def test_a_ledger_is_written_read_and_deleted(s3_url: str) -> None:
    rows = ledger(9_000, size_bytes=500)
    storage, files = FileStorage(s3_url), LedgerFiles(s3_url, cache_bytes=1 << 22)
    manifest = write_ledger(storage, NAME, rows, topic_id=7, ledger_id=12)
    assert verify(storage, NAME) == manifest
    assert 0 < storage.size_bytes(NAME) < 500 * 9_000
    assert files.read(NAME, 8_000, 8_020, more_bytes=10_000) == rows[8_000:8_021]
    assert files.read_some(NAME, [3, 8_999]) == [rows[3], rows[8_999]]
    assert files.first_after(NAME, rows[5_000].append_ms) == 5_000
    files.delete(NAME)
    files.delete(NAME)
    with pytest.raises(LedgerFileMissing):
        files.read(NAME, 0, 1, more_bytes=0)


def test_a_bucket_that_does_not_exist_is_named(s3_url: str) -> None:
    storage = FileStorage(s3_url.replace("//history", "//nowhere"))
    with pytest.raises(OffloadUnavailable, match=r"s3://nowhere/vela/7/12-a\.parquet"):
        write_ledger(storage, NAME, ledger(3), topic_id=7, ledger_id=12)
    # If this delete succeeded, the broker would forget the file. If the bucket came back, so would the file.
    with pytest.raises(OffloadUnavailable, match="its bucket does not exist") as error:
        storage.delete(NAME)
    assert not isinstance(error.value, LedgerFileMissing)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("wrong keys", "ACCESS_DENIED|403"),
        ("bucket gone", "bucket does not exist"),
    ],
)
def test_a_storage_in_trouble_is_unavailable_and_not_missing(
    s3_url: str, server: S3Server, fault: str, words: str
) -> None:
    storage, files = FileStorage(s3_url), LedgerFiles(s3_url, cache_bytes=0)
    rows = ledger(300, size_bytes=500)
    write_ledger(storage, NAME, rows, topic_id=7, ledger_id=12)
    server.fault = fault
    with pytest.raises(OffloadUnavailable, match=words) as error:
        files.read(NAME, 0, 200, more_bytes=100_000)
    assert type(error.value) is OffloadUnavailable
    server.fault = ""
    assert files.read(NAME, 0, 10, more_bytes=100_000) == rows[:11]
