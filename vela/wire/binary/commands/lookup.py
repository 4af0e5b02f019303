"""Finding topics: partition metadata, lookup, topics of a namespace."""

from __future__ import annotations

from vela.wire.binary.commands.connection import frame_of
from vela.wire.binary.enums import TopicsMode
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = [
    "get_topics_of_namespace",
    "lookup",
    "partition_metadata",
]


def partition_metadata(topic: str, *, request_id: int, create: bool = True) -> bytes:
    """PARTITIONED_METADATA: asks how many partitions a topic has."""
    body = pb.CommandPartitionedTopicMetadata(
        topic=topic, request_id=request_id, metadata_auto_creation_enabled=create
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.PARTITIONED_METADATA, partitionMetadata=body))


def lookup(
    topic: str, *, request_id: int, authoritative: bool = False, listener_name: str | None = None
) -> bytes:
    """LOOKUP: asks which broker serves a topic. `authoritative` repeats the value that a redirection gave."""
    body = pb.CommandLookupTopic(
        topic=topic,
        request_id=request_id,
        authoritative=authoritative,
        advertised_listener_name=listener_name,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookupTopic=body))


def get_topics_of_namespace(
    namespace: str,
    *,
    request_id: int,
    mode: TopicsMode = TopicsMode.PERSISTENT,
    pattern: str | None = None,
    known_hash: str | None = None,
) -> bytes:
    """GET_TOPICS_OF_NAMESPACE: asks for the topics of "tenant/namespace".

    `known_hash`: the hash of the list that the client has.
    """
    body = pb.CommandGetTopicsOfNamespace(
        request_id=request_id,
        namespace=namespace,
        mode=pb.CommandGetTopicsOfNamespace.Mode.ValueType(mode),
        topics_pattern=pattern,
        topics_hash=known_hash,
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.GET_TOPICS_OF_NAMESPACE, getTopicsOfNamespace=body))
