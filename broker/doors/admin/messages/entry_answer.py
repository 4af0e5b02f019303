"""One entry as an HTTP answer: the payload in the body, and the metadata in headers."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpResponse

from broker.core.entry import FLAG_CORRUPT
from broker.doors.admin.refusals import Refused
from broker.doors.times import format_time
from vela.wire.compression import Compression, decompress
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import CodecUnavailable, DecompressionFailed, MetadataCorrupt

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

__all__ = ["entry_answer"]

_MOST_HEADER_CHARACTERS: Final = 65_000  # HTTP clients in Python fail above this limit
_SIGNED: Final = 1 << 63  # From this number on, Java writes unsigned 64-bit numbers as negative
_FLAGS: Final = ("null_value", "null_partition_key", "partition_key_b64_encoded")
_CODECS: Final = {each.value: each.name for each in Compression}


def entry_answer(entry: StoredEntry, *, most_bytes: int) -> HttpResponse:
    """Return an entry as an HTTP answer. A batch is not split.

    Encrypted payloads and chunks are not decompressed. Raises Refused(500) if the entry is damaged or cannot be
    decompressed within `most_bytes`, and Refused(422) if a value is too long for a header.
    """
    position = f"{entry.ledger_id}:{entry.entry_id}"
    if entry.flags & FLAG_CORRUPT:
        raise Refused(500, f"entry {position} is damaged")
    try:
        metadata, offset = parse_metadata(entry.data)
        payload = entry.data[offset:]
        is_encrypted = bool(metadata.encryption_keys)
        if not is_encrypted and metadata.compression and not metadata.num_chunks_from_msg > 1:
            if metadata.uncompressed_size > most_bytes:
                raise Refused(500, f"entry {position} has more than {most_bytes} bytes")
            payload = decompress(metadata.compression, payload, uncompressed_bytes=metadata.uncompressed_size)
    except CodecUnavailable as error:
        raise Refused(500, f"entry {position} cannot be decompressed here: {error}") from error
    except (MetadataCorrupt, DecompressionFailed) as error:
        raise Refused(500, f"entry {position} is damaged: {error}") from error
    answer = HttpResponse(payload, content_type="application/octet-stream")
    headers = {
        "Message-ID": position,
        "PROPERTY": json.dumps({str(pair.key): str(pair.value) for pair in metadata.properties}),
        "Is-Encrypted": _bool(is_encrypted),
        "txn-uncommitted": "false",
        **_headers(metadata),
    }
    if metadata.HasField("num_messages_in_batch"):
        headers["num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["batch-size"] = str(len(payload))
    for name, value in headers.items():
        if len(value) > _MOST_HEADER_CHARACTERS:
            raise Refused(
                422,
                f"X-Pulsar-{name} of entry {position} would have {len(value)} characters, and clients read"
                f" {_MOST_HEADER_CHARACTERS} at most: consume the message, or look at it in the console",
            )
        answer[f"X-Pulsar-{name}"] = value
    return answer


def _headers(metadata: MessageMetadata) -> dict[str, str]:
    found: dict[str, str] = {}
    has: Any = metadata.HasField
    for field, name in (
        ("publish_time", "publish-time"),
        ("event_time", "event-time"),
        ("deliver_at_time", "deliver-at-time"),
    ):
        if value := getattr(metadata, field):
            found[name] = format_time(value)
    for field, name in (
        ("producer_name", "producer-name"),
        ("partition_key", "partition-key"),
        ("replicated_from", "replicated-from"),
        ("uuid", "uuid"),
    ):
        if has(field):
            found[name] = _text(str(getattr(metadata, field)))
    for field, name in (
        ("sequence_id", "sequence-id"),
        ("highest_sequence_id", "highest-sequence-id"),
        ("num_chunks_from_msg", "num-chunks-from-msg"),
        ("total_chunk_msg_size", "total-chunk-msg-size"),
        ("chunk_id", "chunk-id"),
        ("marker_type", "marker-type"),
    ):
        if has(field):
            value = getattr(metadata, field)
            found[name] = str(value - 2 * _SIGNED if value >= _SIGNED else value)
    for field in _FLAGS:
        if has(field):
            found[field.replace("_", "-")] = _bool(getattr(metadata, field))
    for field, name in (
        ("ordering_key", "Base64-ordering-key"),
        ("schema_version", "Base64-schema-version"),
        ("encryption_param", "Base64-encryption-param"),
    ):
        if value := getattr(metadata, field):
            found[name] = base64.b64encode(value).decode()
    if metadata.compression:
        found["compression"] = _CODECS.get(metadata.compression, str(metadata.compression))
        found["uncompressed-size"] = str(metadata.uncompressed_size)
    if metadata.encryption_algo:
        found["encryption-algo"] = _text(metadata.encryption_algo)
    return found


def _bool(value: object) -> str:
    return "true" if value else "false"


def _text(value: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in value)
