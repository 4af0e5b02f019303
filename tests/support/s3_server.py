"""An S3 server for tests: moto, with faults that a test switches on. It keeps its files across a stop and a start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from moto.moto_server import werkzeug_app as moto_app
from pyarrow import fs
from werkzeug import serving, wrappers

__all__ = ["CREDENTIALS", "S3Server", "s3_server"]

CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_REGION: Final = "eu-central-1"
_REFUSALS: Final = {
    "wrong keys": (
        403,
        "InvalidAccessKeyId",
        "The AWS Access Key Id you provided does not exist in our records.",
    ),
    "bucket gone": (404, "NoSuchBucket", "The specified bucket does not exist"),
}


class S3Server:
    """A server with one bucket. Its port stays the same over `stop` and `start`."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        # "" for none, "wrong keys", "bucket gone", or "cut": then each answer with data breaks off in the middle.
        self.fault = ""
        self.cuts = 0
        self._moto = moto_app.DomainDispatcherApplication(moto_app.create_backend_app)
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._port = 0

    def start(self) -> None:
        """Serve. Files that were stored before a `stop` are still there. Safe to repeat."""
        if self._thread is not None:
            return
        self._server = serving.make_server("127.0.0.1", self._port, self._answer, threaded=True)
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections from now on. Safe to repeat."""
        if self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._thread = None

    @property
    def url(self) -> str:
        """The URL of a folder in the bucket, for VELA_OFFLOAD_URL."""
        return (
            f"s3://{self.bucket}/vela?region={_REGION}&scheme=http&endpoint_override=127.0.0.1:{self._port}"
        )

    def files(self) -> list[str]:
        """Return the names of all files in the folder."""
        bucket = self._filesystem()
        found = bucket.get_file_info(
            fs.FileSelector(f"{self.bucket}/vela", recursive=True, allow_not_found=True)
        )
        return sorted(each.path.partition("/vela/")[2] for each in found if each.is_file)

    def make_bucket(self) -> None:
        """Make the bucket. The process must have `CREDENTIALS` in its environment."""
        self._filesystem(allow_bucket_creation=True).create_dir(self.bucket)

    def _filesystem(self, **more: Any) -> fs.S3FileSystem:
        where = f"127.0.0.1:{self._port}"
        return fs.S3FileSystem(endpoint_override=where, scheme="http", region=_REGION, **more)

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if self.fault in _REFUSALS:
            status, code, text = _REFUSALS[self.fault]
            body = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
            return wrappers.Response(body, status, mimetype="application/xml")(environ, start_response)
        answer = wrappers.Response.from_app(self._moto, environ, buffered=True)
        # In its answer to a completed upload, moto gives an XML element the wrong name, which Arrow does not accept.
        if environ["REQUEST_METHOD"] == "POST":
            data = answer.get_data()
            answer.set_data(
                data.replace(b"CompleteMultipartUploadResponse", b"CompleteMultipartUploadResult")
            )
        if self.fault == "cut" and environ["REQUEST_METHOD"] == "GET" and len(answer.get_data()) > 1:
            self.cuts += 1
            data = answer.get_data()
            answer.response = _half(data, environ["werkzeug.socket"])
        return answer(environ, start_response)


def _half(data: bytes, connection: socket.socket) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def s3_server(bucket: str = "history") -> Iterator[S3Server]:
    """Run a server with a bucket. The process must have `CREDENTIALS` in its environment."""
    server = S3Server(bucket)
    server.start()
    try:
        server.make_bucket()
        yield server
    finally:
        server.stop()
