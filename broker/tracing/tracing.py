"""Make spans for messages whose producer sampled the trace."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from vela.version import __version__
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import MetadataCorrupt

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from broker.core.entry import StoredEntry

__all__ = ["Tracing"]

logger = logging.getLogger(__name__)

MOST_SPANS_PER_S: Final = 1000
STOP_TIMEOUT_S: Final = 2.0
_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_LONGEST_PARENT: Final = 128
# The broker turns off the warnings of these loggers. They come for each message whose tracestate is malformed or too
# long, and show parts of the tracestate.
_WARNS_FOR_EACH_MESSAGE: Final = ("opentelemetry.trace.propagation.tracecontext", "opentelemetry.trace.span")
# The first six bytes of an entry are a magic number and a checksum. The next four bytes are the metadata size.
_METADATA_SIZE: Final = slice(6, 10)
_METADATA: Final = 10
_NS_PER_S: Final = 1_000_000_000


class Tracing:
    """Makes the spans of one broker. Use it from one thread only.

    `parent_of`, `published` and `span` raise no errors.
    """

    def __init__(self) -> None:
        resource = Resource.create()  # Reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "vela"}))
        # At exit, the provider would wait 30 s for a collector that does not answer.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("vela", __version__)
        self._propagator = TraceContextTextMapPropagator()
        for name in _WARNS_FOR_EACH_MESSAGE:
            logging.getLogger(name).setLevel(logging.ERROR)
        self._second = 0
        self._spans = 0
        self._has_failed = False
        self._dropped = 0

    def parent_of(self, data: bytes) -> Context | None:
        """Return the trace context in an entry's metadata if the trace is sampled, otherwise None."""
        end = _METADATA + int.from_bytes(data[_METADATA_SIZE], "big")
        if data.find(b"traceparent", _METADATA, end) < 0:
            return None
        try:
            return self._sampled(data)
        except MetadataCorrupt:
            return None
        except Exception as error:
            self._failed(error)
            return None

    def _sampled(self, data: bytes) -> Context | None:
        metadata, _ = parse_metadata(data)
        found = {each.key: each.value for each in metadata.properties if each.key in (_PARENT, _STATE)}
        parent = found.get(_PARENT)
        if not isinstance(parent, str) or len(parent) > _LONGEST_PARENT:
            return None
        carrier = {name: value for name, value in found.items() if isinstance(value, str)}
        context = self._propagator.extract(carrier)
        span = get_current_span(context).get_span_context()
        return context if span.is_valid and span.trace_flags.sampled else None

    def published(
        self, topic: str, entries: Sequence[StoredEntry], *, waited_s: float, stored_ms: int
    ) -> None:
        """Make a `publish` span for each traced entry. Each span lasts `waited_s` and ends now."""
        now_ns = time.time_ns()
        for entry in entries:
            parent = self.parent_of(entry.data)
            if parent is not None:
                self.span(
                    "publish",
                    topic,
                    entry.ledger_id,
                    entry.entry_id,
                    parent,
                    start_ns=now_ns - int(waited_s * _NS_PER_S),
                    end_ns=now_ns,
                    stored_ns=stored_ms * 1_000_000,
                    attributes={"messaging.message.envelope.size": len(entry.data)},
                )

    def span(
        self,
        operation: str,
        topic: str,
        ledger_id: int,
        entry_id: int,
        parent: Context,
        *,
        start_ns: int,
        end_ns: int,
        stored_ns: int = 0,
        attributes: dict[str, str | int],
    ) -> None:
        """Make one span, unless the current second already has MOST_SPANS_PER_S spans.

        If `stored_ns` is not 0, the span gets an event named `stored` at that time.
        """
        if not self._has_room():
            return
        try:
            self._make(
                operation,
                topic,
                f"{ledger_id}:{entry_id}",
                parent,
                start_ns=start_ns,
                end_ns=end_ns,
                stored_ns=stored_ns,
                attributes=attributes,
            )
        except Exception as error:
            self._failed(error)

    def _make(
        self,
        operation: str,
        topic: str,
        message_id: str,
        parent: Context,
        *,
        start_ns: int,
        end_ns: int,
        stored_ns: int,
        attributes: dict[str, str | int],
    ) -> None:
        span = self._tracer.start_span(
            f"{operation} {topic}",
            context=parent,
            kind=SpanKind.SERVER if operation == "publish" else SpanKind.INTERNAL,
            start_time=start_ns,
            attributes={
                "messaging.system": "pulsar",
                "messaging.operation.name": operation,
                "messaging.destination.name": topic,
                "messaging.message.id": message_id,
                **attributes,
            },
        )
        if stored_ns:
            span.add_event("stored", timestamp=min(max(stored_ns, start_ns), end_ns))
        span.end(end_ns)

    def _failed(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.error(
                "making a span failed; the message is not affected, and further failures are not logged",
                exc_info=error,
            )

    def _has_room(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            if self._dropped:
                logger.warning(
                    "more than %s spans in a second: %s were dropped; let your producers sample fewer traces",
                    MOST_SPANS_PER_S,
                    self._dropped,
                )
            self._second, self._spans, self._dropped = second, 0, 0
        self._spans += 1
        if self._spans > MOST_SPANS_PER_S:
            self._dropped += 1
            return False
        return True

    async def stop(self) -> None:
        """Export the queued spans. Wait at most STOP_TIMEOUT_S."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # The loop may already be closed
                loop.call_soon_threadsafe(done.set)

        # Use a daemon thread, because the process must not wait for a collector that does not answer.
        threading.Thread(target=shut_down, name="tracing stop", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await done.wait()
