"""Dead letters and retry letters: where they go, and what they say of the message they copy.

The rules of Pulsar's clients, without I/O: the SDK follows them, and so does the broker for its JSON sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from vela.wire.message_id import MessageId

__all__ = [
    "DEFAULT_MAX_REDELIVERIES",
    "DeadLetterPolicy",
    "DeadLetterRule",
    "RetryPolicy",
    "dead_letter_properties",
    "dead_letter_topic",
    "legacy_dead_letter_name",
    "legacy_retry_name",
    "retry_properties",
    "retry_topic",
    "times_reconsumed",
]

REAL_TOPIC: Final = "REAL_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
ORIGIN_MESSAGE_ID_MISSPELT: Final = "ORIGIN_MESSAGE_IDY_TIME"  # of old clients, still written
RECONSUME_TIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"
REAL_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"

DEFAULT_MAX_REDELIVERIES: Final = 16  # where retry letters are on and nobody said
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class DeadLetterRule(StrEnum):
    """When the redelivery count makes a dead letter."""

    JAVA = "java"  # the application sees max + 1 deliveries; the last one's negative ack or timeout decides
    GO = "go"  # the application sees max deliveries; the next one never reaches it


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    """Dead letter after `max_redeliver_count` redeliveries."""

    max_redeliver_count: int  # > 0
    topic: str | None = None  # None = the default name
    initial_subscription: str | None = None  # made with the topic, so that nothing on it is lost
    rule: DeadLetterRule = DeadLetterRule.JAVA

    def bypasses(self, redeliveries: int) -> bool:
        """A delivery with this count is a dead letter at once: the application does not get it."""
        if self.rule is DeadLetterRule.GO:
            return redeliveries >= self.max_redeliver_count
        return redeliveries > self.max_redeliver_count

    def ends(self, redeliveries: int) -> bool:
        """A message delivered with this count is a dead letter instead of being redelivered once more."""
        return self.rule is DeadLetterRule.JAVA and redeliveries >= self.max_redeliver_count


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Messages can be put off to the retry letter topic."""

    topic: str | None = None  # None = the default name
    on_ack_timeout: bool = False  # a message not acked in time goes there too, instead of being redelivered


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Of a full topic name without its partition suffix."""
    return f"{topic}-{subscription}-DLQ"


def retry_topic(topic: str, subscription: str) -> str:
    """Of a full topic name without its partition suffix."""
    return f"{topic}-{subscription}-RETRY"


def legacy_dead_letter_name(subscription: str) -> str:
    """Local name, in the topic's namespace, that old clients used. It is kept to where it exists."""
    return f"{subscription}-DLQ"


def legacy_retry_name(subscription: str) -> str:
    """As `legacy_dead_letter_name`."""
    return f"{subscription}-RETRY"


def dead_letter_properties(
    properties: Mapping[str, str], *, topic: str, message_id: MessageId, subscription: str
) -> dict[str, str]:
    """Those of a copy: the message's own, and where it came from. What a first copy said of that is kept."""
    origin = java_text(message_id)
    copied = dict(properties)
    copied.setdefault(REAL_TOPIC, topic)
    copied.setdefault(ORIGIN_MESSAGE_ID, origin)
    copied.setdefault(ORIGIN_MESSAGE_ID_MISSPELT, origin)
    copied[REAL_SUBSCRIPTION] = subscription
    return copied


def retry_properties(
    properties: Mapping[str, str],
    *,
    topic: str,
    message_id: MessageId,
    subscription: str,
    delay_ms: int,
    custom: Mapping[str, str] = _NONE,
) -> dict[str, str]:
    """Those of a message put off once more; `custom` ones override what is copied, not the two that are counted."""
    copied = dead_letter_properties(properties, topic=topic, message_id=message_id, subscription=subscription)
    copied.update(custom)
    copied[RECONSUME_TIMES] = str(times_reconsumed(copied) + 1)
    copied[DELAY_TIME] = str(max(0, delay_ms))
    return copied


def times_reconsumed(properties: Mapping[str, str]) -> int:
    """How often a message has been put off; 0 when it does not say, or says nonsense."""
    text = properties.get(RECONSUME_TIMES, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def java_text(message_id: MessageId) -> str:
    """As Java's clients print an id: the partition always, the batch index where there is one."""
    text = f"{message_id.ledger_id}:{message_id.entry_id}:{message_id.partition}"
    return text if message_id.batch_index < 0 else f"{text}:{message_id.batch_index}"
