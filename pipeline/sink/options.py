"""The options of `df.write` and `df.writeStream` with format vela, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.errors import InvalidOption
from pipeline.option_values import OptionValues, full_topic_name
from pipeline.sink.stored_schemas import stored_schemas
from vela.wire.binary.schema import Schema

__all__ = ["WriteOptions"]

_NAMES: Final = (
    "serviceUrl",
    "token",
    "tokenFile",
    "tlsTrustFile",
    "tlsCertificateFile",
    "tlsKeyFile",
    "topic",
    "writeId",
    "exactlyOnce",
    "schemas",
    "compression",
    "batchRows",
    "batchBytes",
    "rowsPerSecond",
    "sendTimeoutMs",
)
# Spark passes these options of a stream on to the sink, which ignores them.
_SPARKS: Final = ("checkpointLocation", "path", "queryName")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write. Spark pickles them and sends them to the executors."""

    service_url: str  # of the broker, as clients take it
    token: str = field(repr=False)  # for the broker; "" = none
    token_file: str  # a file with the token, where the tasks run; "" = none
    tls_trust_file: str  # a PEM file where the tasks run; "" = the system's authorities
    tls_certificate_file: str  # a PEM file where the tasks run; "" = no certificate
    tls_key_file: str  # the key of the certificate, also a PEM file; "" = no certificate
    topic: str | None  # for every row; None = column __topic names it
    # The id of a batch write. If a write is repeated with the same id, a topic that deduplicates stores no row twice.
    write_id: str | None  # None = a random id
    exactly_once: bool | None  # None = True for streams, and for batch writes with a write_id
    schemas: Mapping[int, Schema]  # of rows with a __schemaVersion, by version; other rows have no schema
    compression: str  # a name of vela.CompressionType, in lower case
    batch_rows: int  # the most rows of an entry
    batch_bytes: int  # the most payload bytes of an entry, unless one row has more
    rows_per_s: int  # the most that each task writes; 0 = no limit
    send_timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read Spark's options. The case of names does not matter. Raises InvalidOption, which names the option."""
        values = OptionValues(options, _NAMES, ignored=_SPARKS)
        topic = values.text("topic")
        certificate, key = (
            values.text("tlsCertificateFile", os.environ.get("VELA_CLIENT_CERTIFICATE_FILE", "")),
            values.text("tlsKeyFile", os.environ.get("VELA_CLIENT_KEY_FILE", "")),
        )
        if bool(certificate) != bool(key):
            raise InvalidOption("options tlsCertificateFile and tlsKeyFile need each other: set both")
        return cls(
            service_url=values.required("serviceUrl", "pulsar://127.0.0.1:6650"),
            token=values.text("token")
            or ("" if values.has("tokenFile") else os.environ.get("VELA_TOKEN", "")),
            token_file=values.text("tokenFile")
            or ("" if values.has("token") else os.environ.get("VELA_TOKEN_FILE", "")),
            tls_trust_file=values.text("tlsTrustFile", os.environ.get("VELA_CLIENT_TRUST_FILE", "")),
            tls_certificate_file=certificate,
            tls_key_file=key,
            topic=full_topic_name(topic) if topic else None,
            # An empty id, perhaps from a variable that is not set, must not write everything again.
            write_id=values.required("writeId", "orders-2026-03-01") if values.has("writeId") else None,
            exactly_once=values.boolean("exactlyOnce", default=True) if values.has("exactlyOnce") else None,
            schemas=stored_schemas(values.text("schemas")),
            compression=values.choice("compression", ("none", "lz4", "zlib", "zstd", "snappy")),
            batch_rows=values.integer("batchRows", 5_000, least=1, most=100_000),
            batch_bytes=values.integer("batchBytes", 1 << 20, least=1024, most=64 << 20),
            rows_per_s=values.integer("rowsPerSecond", 0, least=0, most=1 << 40),
            send_timeout_ms=values.integer("sendTimeoutMs", 60_000, least=1000, most=3_600_000),
        )

    def require_stream(self) -> None:
        """Raise InvalidOption for options that only a batch write has."""
        if self.write_id is not None:
            raise InvalidOption(
                "option writeId is for batch writes: remove it; a stream uses the id of its query"
            )
