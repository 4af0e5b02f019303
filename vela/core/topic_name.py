"""Complete topic names as applications write them, and split them into their parts."""

from __future__ import annotations

from vela.errors import InvalidConfiguration, InvalidTopicName
from vela.wire.errors import InvalidTopicName as NotATopicName
from vela.wire.topic_name import TopicName

__all__ = ["base_name", "full_name", "namespace_of", "partition_index", "partition_name"]


def full_name(topic: str) -> str:
    """Return the full name: "t" is persistent://public/default/t, and "a/b/t" is persistent://a/b/t.

    Full names stay unchanged. Raises InvalidTopicName, and InvalidConfiguration (a ValueError, as in Apache's client)
    for anything but a string.
    """
    return _parse(topic).full


def namespace_of(topic: str) -> str:
    """Return the namespace of a topic as "tenant/namespace". Raises InvalidTopicName."""
    return _parse(topic).namespace_name


def base_name(topic: str) -> str:
    """Return a topic's full name; for a partition, that of its partitioned topic. Raises InvalidTopicName."""
    return _parse(topic).base


def partition_name(topic: str, index: int) -> str:
    return f"{topic}-partition-{index}"


def partition_index(topic: str) -> int:
    """Return the index of a partition, or -1 if the topic is not one. Raises InvalidTopicName."""
    index = _parse(topic).partition
    return -1 if index is None else index


def _parse(topic: str) -> TopicName:
    if not isinstance(topic, str):
        raise InvalidConfiguration(f"a topic's name must be a string, such as 'orders', not {topic!r}")
    try:
        return TopicName.parse(topic)
    except NotATopicName as error:
        raise InvalidTopicName(str(error)) from None
