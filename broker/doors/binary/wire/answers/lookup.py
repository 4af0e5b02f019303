"""Builders for answers about topics.

Clients treat an absent field `response` as a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.enums import ServerError
from vela.wire.checksum import crc32c
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = [
    "lookup_failed",
    "lookup_response",
    "partition_metadata_failed",
    "partition_metadata_response",
    "topics_hash",
    "topics_of_namespace",
    "watch_success",
    "watch_update",
]


def partition_metadata_response(request_id: int, partitions: int) -> bytes:
    """Build PARTITIONED_METADATA_RESPONSE."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        partitions=partitions,
        response=pb.CommandPartitionedTopicMetadataResponse.Success,
    )
    return _partitions_frame(body)


def partition_metadata_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Build PARTITIONED_METADATA_RESPONSE with an error."""
    body = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=pb.CommandPartitionedTopicMetadataResponse.Failed,
        error=error_value(code),
        message=message,
    )
    return _partitions_frame(body)


def _partitions_frame(body: pb.CommandPartitionedTopicMetadataResponse) -> bytes:
    kind = pb.BaseCommand.PARTITIONED_METADATA_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, partitionMetadataResponse=body))


def lookup_response(
    request_id: int,
    *,
    url: str,
    url_tls: str | None = None,
    proxy_through_service_url: bool,
    redirect: bool = False,
) -> bytes:
    """Build LOOKUP_RESPONSE."""
    answer = pb.CommandLookupTopicResponse
    body = answer(
        request_id=request_id,
        brokerServiceUrl=url,
        brokerServiceUrlTls=url_tls,
        response=answer.Redirect if redirect else answer.Connect,
        authoritative=True,
        proxy_through_service_url=proxy_through_service_url,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=body))


def lookup_failed(request_id: int, code: ServerError, message: str) -> bytes:
    """Build LOOKUP_RESPONSE with an error."""
    body = pb.CommandLookupTopicResponse(
        request_id=request_id,
        response=pb.CommandLookupTopicResponse.Failed,
        error=error_value(code),
        message=message,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=body))


def topics_of_namespace(
    request_id: int, topics: Sequence[str], *, is_filtered: bool, known_hash: str | None = None
) -> bytes:
    """Build GET_TOPICS_OF_NAMESPACE_RESPONSE. If the hash of the topics is `known_hash`, leave out the topics."""
    current = topics_hash(frozenset(topics))
    changed = current != known_hash
    body = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=request_id,
        topics=topics if changed else (),
        topics_hash=current,
        filtered=is_filtered,
        changed=changed,
    )
    kind = pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE
    return frame_of(pb.BaseCommand(type=kind, getTopicsOfNamespaceResponse=body))


def watch_success(
    request_id: int, watcher_id: int, topics: frozenset[str], *, known_hash: str | None
) -> bytes:
    """Build WATCH_TOPIC_LIST_SUCCESS. If the hash of the topics is `known_hash`, leave out the topics."""
    current = topics_hash(topics)
    body = pb.CommandWatchTopicListSuccess(
        request_id=request_id,
        watcher_id=watcher_id,
        topic=() if current == known_hash else sorted(topics),
        topics_hash=current,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.WATCH_TOPIC_LIST_SUCCESS, watchTopicListSuccess=body))


def watch_update(
    watcher_id: int, *, added: Iterable[str], removed: Iterable[str], topics: frozenset[str]
) -> bytes:
    """Build WATCH_TOPIC_UPDATE. `topics` is the whole list after the change."""
    body = pb.CommandWatchTopicUpdate(
        watcher_id=watcher_id,
        new_topics=sorted(added),
        deleted_topics=sorted(removed),
        topics_hash=topics_hash(topics),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.WATCH_TOPIC_UPDATE, watchTopicUpdate=body))


@lru_cache(maxsize=16)
def topics_hash(topics: frozenset[str]) -> str:
    """Return the CRC32C of the sorted, comma-separated names, as little-endian hex."""
    return crc32c(",".join(sorted(topics)).encode()).to_bytes(4, "little").hex()
