"""The settings of a pull consumer, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vela.core.argument_checks import require_whole
from vela.core.consuming.pull_loop import PullLimits
from vela.core.topic_name import full_name, partition_index
from vela.errors import InvalidConfiguration, InvalidTopicName
from vela.wire.errors import InvalidPull
from vela.wire.pull.property_filter import parse_property_filter
from vela.wire.pull.tags import parse_tags

__all__ = ["PullSettings", "pulled_topic"]

_MAX_MESSAGES: Final = 1024  # the broker's limit for one pull
_MAX_HOLD_MS: Final = 600_000  # the broker's limit


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    """The settings of a pull consumer. Raises InvalidConfiguration if they are wrong."""

    queues: Sequence[int] | None  # None = all
    tags: str  # "*" = all
    property_filter: str  # "" = none
    listener_concurrency: int
    negative_ack_redelivery_delay_ms: int
    max_reconsume_times: int
    max_messages: int  # for one pull
    pull_interval_ms: int  # time between an answer with messages and the next pull
    hold_ms: int  # how long the broker may park a pull
    request_timeout_ms: int  # a pull without an answer after this time counts as lost
    commit_interval_ms: int  # time between two saves of the offsets
    limits: PullLimits

    def __post_init__(self) -> None:
        self._check("max_messages", 1, _MAX_MESSAGES)
        self._check("hold_ms", 1, _MAX_HOLD_MS)
        self._check("pull_interval_ms", 0)
        self._check("commit_interval_ms", 1)
        self._check("listener_concurrency", 1)
        self._check("negative_ack_redelivery_delay_ms", 0)
        self._check("max_reconsume_times", 0)
        self._check("request_timeout_ms", 1)
        for name in ("tags", "property_filter"):
            if not isinstance(text := getattr(self, name), str):
                raise InvalidConfiguration(f"{name} must be a string, not {text!r}")
        if self.request_timeout_ms <= self.hold_ms:
            raise InvalidConfiguration(
                f"request_timeout_ms ({self.request_timeout_ms}) must be greater than hold_ms ({self.hold_ms}), "
                "because the broker may park a pull for that long before it answers"
            )
        queues = self.queues
        if queues is not None and not _are_queues(queues):
            raise InvalidConfiguration(
                f"queues must be a list of whole numbers, 0 or more, each given once, not {queues!r}; None = all"
            )
        try:
            parse_tags(self.tags)
            if self.property_filter.strip():
                parse_property_filter(self.property_filter)
        except InvalidPull as error:
            raise InvalidConfiguration(str(error)) from None

    def _check(self, name: str, least: int, most: int | None = None) -> None:
        value = getattr(self, name)
        require_whole(name, value, least=least)
        if most is not None and value > most:
            raise InvalidConfiguration(f"{name} must be at most {most}, not {value}")


def _are_queues(numbers: object) -> bool:
    return (
        isinstance(numbers, Sequence)
        and bool(numbers)
        and all(type(each) is int and each >= 0 for each in numbers)
        and len(set(numbers)) == len(numbers)
    )


def pulled_topic(topic: str) -> str:
    """Return a topic's full name. Raises InvalidTopicName if it cannot be pulled."""
    name = full_name(topic)
    if not name.startswith("persistent://") or partition_index(name) >= 0:
        raise InvalidTopicName(
            f"{topic!r} cannot be pulled: name a persistent topic without a partition; choose partitions with queues"
        )
    return name
