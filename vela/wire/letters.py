"""Dead letters and retry letters: the names of their topics, and properties that identify the original message.

These are the rules of Pulsar's clients, without I/O. Vela's client follows them, and so does the broker for consumers
over WebSocket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from vela.wire.errors import InvalidTopicName
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
ORIGIN_MESSAGE_ID_MISSPELT: Final = "ORIGIN_MESSAGE_IDY_TIME"  # old clients misspelt it, so copies have both
RECONSUME_TIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"
REAL_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"

DEFAULT_MAX_REDELIVERIES: Final = 16  # the limit if retry letters are on and the application sets none
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_MOST_NAME_BYTES: Final = 1024  # the broker refuses a topic with a longer name


class DeadLetterRule(StrEnum):
    """At which redelivery count a message becomes a dead letter."""

    JAVA = "java"  # the application gets max + 1 deliveries; a negative ack or timeout of the last makes the letter
    GO = "go"  # the application gets max deliveries; the next one becomes a letter instead


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    """After `max_redeliver_count` redeliveries, a message becomes a dead letter."""

    max_redeliver_count: int  # > 0
    topic: str | None = None  # None = the default name
    initial_subscription: str | None = None  # created if it is missing, so that no letter is lost
    rule: DeadLetterRule = DeadLetterRule.JAVA

    def bypasses(self, redeliveries: int) -> bool:
        """Return whether a delivery with this count becomes a dead letter at once, unseen by the application."""
        if self.rule is DeadLetterRule.GO:
            return redeliveries >= self.max_redeliver_count
        return redeliveries > self.max_redeliver_count

    def ends(self, redeliveries: int) -> bool:
        """Return whether a message delivered with this count becomes a dead letter instead of being redelivered."""
        return self.rule is DeadLetterRule.JAVA and redeliveries >= self.max_redeliver_count


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """An application may put messages off: such messages go to the retry-letter topic and come back later."""

    topic: str | None = None  # None = the default name
    on_ack_timeout: bool = False  # a message not acked in time also goes there, instead of being redelivered


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Return the default dead-letter topic. `topic` is a full name without a partition suffix.

    Raises InvalidTopicName if the name is too long for a topic.
    """
    return _short_enough(f"{topic}-{subscription}-DLQ", "dead-letter")


def retry_topic(topic: str, subscription: str) -> str:
    """Return the default retry-letter topic. `topic` is a full name without a partition suffix.

    Raises InvalidTopicName if the name is too long for a topic.
    """
    return _short_enough(f"{topic}-{subscription}-RETRY", "retry-letter")


def legacy_dead_letter_name(subscription: str) -> str:
    """Return the local name that old clients gave a dead-letter topic, in the topic's namespace.

    If that topic exists, letters still go to it.
    """
    return f"{subscription}-DLQ"


def legacy_retry_name(subscription: str) -> str:
    """Return the local name of old clients' retry-letter topic; see `legacy_dead_letter_name`."""
    return f"{subscription}-RETRY"


def dead_letter_properties(
    properties: Mapping[str, str], *, topic: str, message_id: MessageId, subscription: str
) -> dict[str, str]:
    """Return the properties of a copy: the message's own, and where it came from.

    If the message is itself a copy, the new copy names the same origin.
    """
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
    """Return the properties of a message that is put off once more.

    `custom` properties replace copied ones, but not RECONSUMETIMES and DELAY_TIME.
    """
    copied = dead_letter_properties(properties, topic=topic, message_id=message_id, subscription=subscription)
    copied.update(custom)
    copied[RECONSUME_TIMES] = str(times_reconsumed(properties) + 1)
    copied[DELAY_TIME] = str(max(0, delay_ms))
    return copied


def times_reconsumed(properties: Mapping[str, str]) -> int:
    """Return how often a message has been put off; 0 if its property is missing or not a number below 10^9."""
    text = properties.get(RECONSUME_TIMES, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _short_enough(name: str, kind: str) -> str:
    size_bytes = len(name.encode(errors="surrogatepass"))
    if size_bytes > _MOST_NAME_BYTES:
        raise InvalidTopicName(
            f"the default {kind} topic, made of the names of topic and subscription, would have a name of"
            f" {size_bytes} bytes; at most {_MOST_NAME_BYTES}: name the {kind} topic in the consumer's options"
        )
    return name


def java_text(message_id: MessageId) -> str:
    """Return an id as Java's clients print it: always with the partition, with the batch index if there is one."""
    text = f"{message_id.ledger_id}:{message_id.entry_id}:{message_id.partition}"
    return text if message_id.batch_index < 0 else f"{text}:{message_id.batch_index}"
