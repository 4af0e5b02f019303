"""Ledger files in an object storage: S3, as moto serves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyarrow import fs

from pipeline.errors import LedgerFileMissing, OffloadUnavailable
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.ledger_files.storage import FileStorage
from pipeline.ledger_files.writer import verify, write_ledger
from tests.unit.pipeline.test_ledger_files import ledger

moto_server = pytest.importorskip("moto.server", reason="moto[server] is not installed")
NAME = "7/12-a.parquet"


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """A bucket, with the options that name its server."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        where = f"{host}:{port}"
        fs.S3FileSystem(
            endpoint_override=where, scheme="http", region="eu-central-1", allow_bucket_creation=True
        ).create_dir("history")
        yield f"s3://history/vela?region=eu-central-1&scheme=http&endpoint_override={where}"
    server.stop()


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
