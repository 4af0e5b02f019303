"""Merge the statistics of all partitions of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from broker.doors.admin.statistics.values import ConsumerStats, PublisherStats, SubscriptionStats, TopicStats

__all__ = ["merged"]

M = TypeVar("M", bound=BaseModel)

# For names with these endings, take the largest value, not the sum. Names in `_EARLIEST` are exceptions.
_LARGEST: Final = (
    "Timestamp",
    "TimeStamp",
    "topicEpoch",
    "backlogQuotaLimitSize",
    "backlogQuotaLimitTime",
    "oldestBacklogMessageAgeSeconds",
    "lastOffloadLedgerId",
    "producerId",
    "avgMessagesPerEntry",
    "lastCompactionDurationTimeInMills",
)
_LATEST: Final = ("lastAckedTime", "lastConsumedTime")
_EARLIEST: Final = (
    "earliestMsgPublishTimeInBacklog",
    "earliestMsgPublishTimeInBacklogs",
    "firstConsumedFlowTimestamp",
    "firstMessagesSentTimestamp",
)


def merged(parts: Sequence[TopicStats]) -> TopicStats:
    """Add up amounts and rates, and merge clients and subscriptions by name."""
    if not parts:
        return TopicStats()
    whole = _merged(parts)
    dated = [each for each in parts if each.earliestMsgPublishTimeInBacklogs]
    if dated:
        oldest = min(dated, key=lambda each: each.earliestMsgPublishTimeInBacklogs)
        whole.oldestBacklogMessageSubscriptionName = oldest.oldestBacklogMessageSubscriptionName
    return whole


def _merged(parts: Sequence[M]) -> M:
    values = {
        name: _value(name, [getattr(each, name) for each in parts]) for name in type(parts[0]).model_fields
    }
    if "averageMsgSize" in values:
        rate = values["msgRateIn"]
        values["averageMsgSize"] = values["msgThroughputIn"] / rate if rate else 0.0
    return type(parts[0]).model_construct(**values)


def _value(name: str, values: list[Any]) -> Any:
    present = [each for each in values if each is not None]
    if not present:
        return None
    first = present[0]
    if isinstance(first, list):
        return _clients([client for each in present for client in each])
    if isinstance(first, dict):
        return _by_name(present)
    if isinstance(first, BaseModel):
        return _merged(present)
    if isinstance(first, bool):
        return any(present)
    if name in _LATEST:
        # Compare the times without the final Z, because a Z sorts after all digits.
        return max(present, key=lambda time: time.rstrip("Z"))
    if isinstance(first, str):
        return next((each for each in present if each), "")
    if name in _EARLIEST:
        return min((each for each in present if each), default=0)
    return max(present) if name.endswith(_LARGEST) else sum(present)


def _clients(clients: list[Any]) -> list[Any]:
    if clients and isinstance(clients[0], PublisherStats):
        return [_merged(each) for each in _grouped(clients, "producerName")]
    if clients and isinstance(clients[0], ConsumerStats):
        return [_merged(each) for each in _grouped(clients, "consumerName")]
    return clients


def _grouped(clients: Iterable[Any], name: str) -> list[list[Any]]:
    groups: dict[str, list[Any]] = {}
    for each in clients:
        groups.setdefault(getattr(each, name), []).append(each)
    return list(groups.values())


def _by_name(maps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    groups: dict[str, list[Any]] = {}
    for each in maps:
        for name, value in each.items():
            groups.setdefault(name, []).append(value)
    return {
        name: _merged(values) if isinstance(values[0], SubscriptionStats) else values[0]
        for name, values in groups.items()
    }
