"""Pulsar's topic names."""

from __future__ import annotations

import re
from typing import Final, Self

from broker.core.errors import InvalidTopicName
from vela.wire import topic_name as wire
from vela.wire.errors import InvalidTopicName as NotATopicName

__all__ = ["MOST_PARTITIONS", "TopicName", "parse_namespace"]

MOST_PARTITIONS: Final = 10_000
_LOCAL: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
_MAX_BYTES: Final = 1024
_MAX_NAMESPACE_CHARACTERS: Final = 255
_LOCAL_RULE: Final = "the local name must be set, without spaces, control characters or /"


class TopicName(wire.TopicName):
    """A topic, or one partition of a partitioned topic."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a topic's full or short name. Raises InvalidTopicName if `text` is not a valid name."""
        size_bytes = len(text.encode(errors="surrogatepass"))
        if size_bytes > _MAX_BYTES:
            raise InvalidTopicName(f"topic name is {size_bytes} bytes long; at most {_MAX_BYTES}")
        try:
            name = super().parse(text)
        except NotATopicName as error:
            raise InvalidTopicName(f"{error}; {_LOCAL_RULE}") from None
        _check_lengths(name.tenant, name.namespace)
        if not _LOCAL.fullmatch(name.local_name):
            raise InvalidTopicName(f"{text!r} is not a topic name: {_LOCAL_RULE}")
        return name

    def with_partition(self, index: int) -> Self:
        """Return the partition with this index.

        Raises InvalidTopicName if `index` is negative or the new name is too long.
        """
        if index < 0:
            raise InvalidTopicName(
                f"partition {index} of {self.base} does not exist: partitions count from 0"
            )
        return self.parse(f"{self.base}-partition-{index}")


def parse_namespace(text: str) -> tuple[str, str]:
    """Split `tenant/namespace`. Raises InvalidTopicName if `text` is not a valid name."""
    try:
        tenant, namespace = wire.parse_namespace(text)
    except NotATopicName as error:
        raise InvalidTopicName(str(error)) from None
    _check_lengths(tenant, namespace)
    return tenant, namespace


def _check_lengths(tenant: str, namespace: str) -> None:
    for what, name in (("tenant", tenant), ("namespace", namespace)):
        if len(name) > _MAX_NAMESPACE_CHARACTERS:
            raise InvalidTopicName(
                f"{what} is {len(name)} characters long; at most {_MAX_NAMESPACE_CHARACTERS}"
            )
