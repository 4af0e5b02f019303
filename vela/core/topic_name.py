"""Names of topics as the client's callers write them: short ones made whole, and the names of partitions."""

from __future__ import annotations

from vela.errors import InvalidConfiguration, InvalidTopicName
from vela.wire.errors import InvalidTopicName as NotATopicName
from vela.wire.topic_name import TopicName

__all__ = ["base_name", "full_name", "namespace_of", "partition_index", "partition_name"]


def full_name(topic: str) -> str:
    """ "t" and "tenant/namespace/t" as persistent://tenant/namespace/t; whole names as they are.

    Raises InvalidTopicName; InvalidConfiguration for what is no string, a ValueError as in Apache's client.
    """
    return _parse(topic).full


def namespace_of(topic: str) -> str:
    """ "tenant/namespace" of a topic. Raises InvalidTopicName."""
    return _parse(topic).namespace_name


def base_name(topic: str) -> str:
    """The partitioned topic that a partition is of, in full; any other topic's own name. Raises InvalidTopicName."""
    return _parse(topic).base


def partition_name(topic: str, index: int) -> str:
    """The topic that is partition `index` of `topic`."""
    return f"{topic}-partition-{index}"


def partition_index(topic: str) -> int:
    """Which partition a topic is, -1 = none. Raises InvalidTopicName."""
    index = _parse(topic).partition
    return -1 if index is None else index


def _parse(topic: str) -> TopicName:
    if not isinstance(topic, str):
        raise InvalidConfiguration(f"a topic's name is a string, such as 'orders', not {topic!r}")
    try:
        return TopicName.parse(topic)
    except NotATopicName as error:
        raise InvalidTopicName(str(error)) from None
