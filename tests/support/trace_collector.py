"""An OpenTelemetry collector that records the exports it gets over HTTP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["TraceCollector", "attributes_of", "started_collector"]


class TraceCollector:
    """The exports that arrived, in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[ExportTraceServiceRequest] = []

    def spans(self, trace_id: str) -> list[Span]:
        """Return the spans of one trace, ordered by start time."""
        found = [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if span.trace_id.hex() == trace_id
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def services(self) -> set[str]:
        """Return the names of the services that exported."""
        return {
            each.value.string_value
            for request in list(self.requests)
            for resource in request.resource_spans
            for each in resource.resource.attributes
            if each.key == "service.name"
        }


def attributes_of(span: Span) -> dict[str, str | int]:
    """Return a span's attributes, which are texts or whole numbers."""
    return {
        each.key: each.value.string_value if each.value.HasField("string_value") else each.value.int_value
        for each in span.attributes
    }


@contextmanager
def started_collector() -> Iterator[TraceCollector]:
    """Run a collector. Its `url` is for OTEL_EXPORTER_OTLP_ENDPOINT."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:  # keep the tests' output quiet
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = TraceCollector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
