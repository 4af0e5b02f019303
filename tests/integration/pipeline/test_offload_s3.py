"""Ledger files in an object storage: S3, as moto serves it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from moto.moto_server import werkzeug_app as moto_app
from pyarrow import fs
from werkzeug import serving, wrappers

from pipeline.errors import LedgerFileMissing, OffloadUnavailable
from pipeline.ledger_files.reader import LedgerFiles
from pipeline.ledger_files.storage import FileStorage
from pipeline.ledger_files.writer import verify, write_ledger
from tests.unit.pipeline.test_ledger_files import ledger

NAME = "7/12-a.parquet"


def s3_server() -> Any:
    """moto behind a server, with the name that S3 gives to the end of an upload: Arrow takes no other."""
    moto = moto_app.DomainDispatcherApplication(moto_app.create_backend_app)

    def as_s3(environ: Any, start_response: Any) -> Any:
        answer = wrappers.Response.from_app(moto, environ, buffered=True)
        if environ["REQUEST_METHOD"] == "POST":
            data = answer.get_data()
            answer.set_data(
                data.replace(b"CompleteMultipartUploadResponse", b"CompleteMultipartUploadResult")
            )
        return answer(environ, start_response)

    return serving.make_server("127.0.0.1", 0, as_s3, threaded=True)


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """A bucket, with the options that name its server."""
    server = s3_server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        where = f"127.0.0.1:{server.server_port}"
        fs.S3FileSystem(
            endpoint_override=where, scheme="http", region="eu-central-1", allow_bucket_creation=True
        ).create_dir("history")
        yield f"s3://history/vela?region=eu-central-1&scheme=http&endpoint_override={where}"
    server.shutdown()
    thread.join()


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
