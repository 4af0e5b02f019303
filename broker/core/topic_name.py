"""Names of topics that the broker takes: Pulsar's, of at most 1024 characters and without blanks."""

from __future__ import annotations

import re
from typing import Final, Self

from broker.core.errors import InvalidTopicName
from vela.wire import topic_name as wire
from vela.wire.errors import InvalidTopicName as NotATopicName

__all__ = ["TopicName", "parse_namespace"]

_LOCAL: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
_MAX_CHARACTERS: Final = 1024
_LOCAL_RULE: Final = "the local name must be set, without blanks or /"


class TopicName(wire.TopicName):
    """A topic, or one partition of a partitioned topic."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a full name, `tenant/namespace/name` or `name` (persistent://public/default/name).

        Raises InvalidTopicName; cluster names of Pulsar 1.x (four parts) are refused.
        """
        if len(text) > _MAX_CHARACTERS:
            raise InvalidTopicName(f"topic name is {len(text)} characters long; at most {_MAX_CHARACTERS}")
        try:
            name = super().parse(text)
        except NotATopicName as error:
            raise InvalidTopicName(f"{error}; {_LOCAL_RULE}") from None
        if not _LOCAL.fullmatch(name.local_name):
            raise InvalidTopicName(f"{text!r} is not a topic name: {_LOCAL_RULE}")
        return name

    def with_partition(self, index: int) -> Self:
        """Partition `index` of this topic (of its base, when this is itself a partition)."""
        if index < 0:
            raise InvalidTopicName(f"partition {index} of {self.base}: must be 0 or more")
        return self.parse(f"{self.base}-partition-{index}")


def parse_namespace(text: str) -> tuple[str, str]:
    """Tenant and namespace of `tenant/namespace`. Raises InvalidTopicName."""
    try:
        return wire.parse_namespace(text)
    except NotATopicName as error:
        raise InvalidTopicName(str(error)) from None
