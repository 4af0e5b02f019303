"""Names of topics: short ones made whole, and the names of partitions."""

from __future__ import annotations

import re
from typing import Final

from vela.errors import InvalidConfiguration, InvalidTopicName

__all__ = ["base_name", "full_name", "namespace_of", "partition_index", "partition_name"]

_DOMAINS: Final = ("persistent", "non-persistent")
_ENTITY: Final = re.compile(r"(?!\.+\Z)[-=:.\w]+", re.ASCII)
_PARTITION: Final = re.compile(r"-partition-(0|[1-9][0-9]*)$")


def full_name(topic: str) -> str:
    """ "t" and "tenant/namespace/t" as persistent://tenant/namespace/t; whole names as they are.

    Raises InvalidTopicName; InvalidConfiguration for what is no string, a ValueError as in Apache's client.
    """
    if not isinstance(topic, str):
        raise InvalidConfiguration(f"a topic's name is a string, such as 'orders', not {topic!r}")
    domain, separator, rest = topic.partition("://")
    if not separator:
        parts = topic.split("/")
        domain = "persistent"
        rest = f"public/default/{topic}" if len(parts) == 1 else topic
    tenant, namespace, name, *_ = [*rest.split("/", 2), "", "", ""]
    if domain not in _DOMAINS or not (tenant and namespace and name) or not topic.strip():
        raise InvalidTopicName(
            f"{topic!r} is not a topic's name: write t, tenant/namespace/t or persistent://tenant/namespace/t"
        )
    for word, value in (("tenant", tenant), ("namespace", namespace)):
        if not _ENTITY.fullmatch(value):
            raise InvalidTopicName(
                f"{topic!r} is not a topic's name: {word} {value!r} may hold letters, digits, -=:._ and not dots only"
            )
    return f"{domain}://{rest}"


def namespace_of(topic: str) -> str:
    """ "tenant/namespace" of a topic. Raises InvalidTopicName."""
    tenant, namespace, _ = full_name(topic).partition("://")[2].split("/", 2)
    return f"{tenant}/{namespace}"


def base_name(topic: str) -> str:
    """The partitioned topic that a partition is of, in full; any other topic's own name. Raises InvalidTopicName."""
    return _PARTITION.sub("", full_name(topic))


def partition_name(topic: str, index: int) -> str:
    """The topic that is partition `index` of `topic`."""
    return f"{topic}-partition-{index}"


def partition_index(topic: str) -> int:
    """Which partition a topic is, -1 = none."""
    found = _PARTITION.search(topic)
    return -1 if found is None else int(found[1])
