"""Dead letters and retry letters of one JSON socket. Clients of the binary protocol write their own letters.

The socket stores a message's letter before it acks the message. If the letter cannot be stored, the broker delivers the
message again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError, InvalidTopicName, NotAuthorized, TopicNotFound
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.doors.websocket.consumer.bounded_tasks import BoundedTasks
from broker.producers.internal_producer import InternalProducer
from broker.producers.key_hash import message_slot
from broker.subscription.requests import AckRequest
from vela.wire.entry import Message, OutgoingMessage, decode_messages
from vela.wire.errors import EntryCorrupt
from vela.wire.errors import InvalidTopicName as NameTooLong
from vela.wire.letters import (
    dead_letter_properties,
    dead_letter_topic,
    legacy_dead_letter_name,
    legacy_retry_name,
    retry_properties,
    retry_topic,
    times_reconsumed,
)
from vela.wire.message_id import MessageId
from vela.wire.redelivery_backoff import RedeliveryBackoff

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.entry import StoredEntry
    from broker.core.subscription.delivery_deadlines import Due
    from broker.doors.ports import ConsumerPort, PublishPort
    from broker.doors.websocket.consumer.delivery_source import DeliverySource
    from vela.wire.letters import DeadLetterPolicy, RetryPolicy

__all__ = ["Letters"]

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100  # Limit of parallel writes for each kind of letter
_WHOLE_ENTRY: Final = -2  # Batch index that stands for all unacked messages of the entry
_AFTER_FAILURE: Final = RedeliveryBackoff(min_ms=1000, max_ms=60_000, multiplier=2)
_FINISH_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Letter:
    """A letter to write for one message, or for all unacked messages of an entry."""

    source: DeliverySource
    consumer: ConsumerPort
    position: Position
    ack: Callable[[Sequence[AckRequest]], None]  # Works even after the consumer is detached
    batch_index: int = _WHOLE_ENTRY  # -1 if the entry is not a batch
    is_retry: bool = False
    delay_ms: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    permits: int = 0


class Letters:
    """Writes the letters of one socket. Call `resolve` first."""

    def __init__(
        self,
        broker: PublishPort,
        clock: Clock,
        *,
        subscription: str,
        consumer_name: str,
        dead_letter: DeadLetterPolicy | None,
        retry: RetryPolicy | None,
    ) -> None:
        self.retry_topic: TopicName | None = None
        self._broker = broker
        self._clock = clock
        self._subscription = subscription
        self._consumer_name = consumer_name
        self._dead_letter = dead_letter
        self._retry = retry
        self._dead_letter_topics: dict[str, TopicName] = {}  # Keys are topics without a partition suffix
        self._producers: dict[str, asyncio.Future[InternalProducer]] = {}
        self._dead_letters = BoundedTasks(AT_ONCE)
        self._retry_letters = BoundedTasks(AT_ONCE)
        self._busy: dict[tuple[Position, int], _Letter] = {}
        self._failures = 0  # Failed letters since the last success

    async def resolve(self, topics: Sequence[str], *, without_own: bool = False) -> list[str]:
        """Choose the topics of the letters, and return the topics to consume.

        The caller must also consume `retry_topic`, unless it is None. With a retry policy, the letters of all topics go
        to the letter topics of the first topic, as in Pulsar. If `without_own` is set, leave out the topics that
        receive this socket's letters. Raises BrokerError.
        """
        bases = list(dict.fromkeys(TopicName.parse(TopicName.parse(topic).base) for topic in topics))
        if self._retry is not None:
            legacy = legacy_retry_name(self._subscription)
            self.retry_topic = await self._choose(bases[0], self._retry.topic, retry_topic, legacy)
            bases = [bases[0], self.retry_topic, *bases[1:]]
        own = {each.full for each in self.topics} if without_own else set()
        if self._dead_letter is not None:
            given, legacy = self._dead_letter.topic, legacy_dead_letter_name(self._subscription)
            if without_own:
                # Each topic must come before its dead-letter topic, whose default name is longer.
                bases.sort(key=lambda base: len(base.full))
            for base in bases:
                if base.full in own:
                    continue
                owner = base if self._retry is None else bases[0]
                chosen = await self._choose(owner, given, dead_letter_topic, legacy)
                self._dead_letter_topics[base.full] = chosen
                if without_own:
                    own.add(chosen.full)
        return [topic for topic in topics if TopicName.parse(topic).base not in own]

    def dead_letter_topic(self, topic: TopicName) -> str | None:
        """Return the full name of the topic's dead-letter topic, or None."""
        chosen = self._dead_letter_topics.get(topic.base)
        return None if chosen is None else chosen.full

    async def _choose(
        self, base: TopicName, given: str | None, default: Callable[[str, str], str], legacy: str
    ) -> TopicName:
        if given is not None:
            return TopicName.parse(given)
        try:
            chosen = TopicName.parse(default(base.full, self._subscription))
        except NameTooLong as error:
            raise InvalidTopicName(str(error)) from None
        known = TopicName.parse(f"{base.domain}://{base.namespace_name}/{legacy}")
        try:
            await self._broker.partition_count(known, create=False)
        except (TopicNotFound, NotAuthorized):
            return chosen
        return known

    @property
    def topics(self) -> set[TopicName]:
        """All topics that get letters."""
        return self.dead_letter_topics.union(filter(None, (self.retry_topic,)))

    @property
    def dead_letter_topics(self) -> set[TopicName]:
        """The topics that get dead letters."""
        return set(self._dead_letter_topics.values())

    def attend(self, source: DeliverySource) -> None:
        """Begin to write letters for this source."""
        source.letters = self
        if source.consumer is not None:
            source.consumer.filter_due(lambda due: self._still_due(source, due))

    def bypasses(self, redeliveries: int) -> bool:
        return self._dead_letter is not None and self._dead_letter.bypasses(redeliveries)

    def take(self, source: DeliverySource, position: Position, permits: int) -> None:
        consumer = source.consumer
        if consumer is not None:
            self._begin(
                _Letter(
                    source=source,
                    consumer=consumer,
                    position=position,
                    ack=consumer.acker(),
                    permits=permits,
                )
            )

    def reconsume_later(
        self, source: DeliverySource, message_id: MessageId, delay_ms: int, properties: Mapping[str, str]
    ) -> None:
        """Write a retry letter with this delay, or a dead letter if no retries are left.

        Do nothing if the message is not pending at this socket.
        """
        consumer, position = source.consumer, Position(message_id.ledger_id, message_id.entry_id)
        if consumer is not None and consumer.has_pending(position):
            self._begin(
                _Letter(
                    source=source,
                    consumer=consumer,
                    position=position,
                    ack=consumer.acker(),
                    batch_index=message_id.batch_index,
                    is_retry=True,
                    delay_ms=delay_ms,
                    properties=properties,
                )
            )

    async def has_room(self) -> None:
        """Wait while too many retry letters are queued."""
        await self._retry_letters.has_room()

    def _still_due(self, source: DeliverySource, due: Sequence[Due]) -> list[Position]:
        """Begin to write letters for due entries. Return the positions to deliver again without a letter."""
        consumer = source.consumer
        if consumer is None:
            return [each.position for each in due]
        busy = {position for position, _ in self._busy}
        wanted: list[Position] = []
        for position, is_nack in due:
            if position in busy:
                # A letter of this entry is not written yet, so check the entry again later.
                consumer.redeliver_at([position], self._clock.now_ms() + _AFTER_FAILURE.min_ms)
                continue
            is_dead = self._dead_letter is not None and self._dead_letter.ends(
                consumer.redelivery_count(position)
            )
            is_retry = not is_dead and not is_nack and self._retry is not None and self._retry.on_ack_timeout
            if not is_dead and not is_retry:
                wanted.append(position)
                continue
            self._begin(
                _Letter(
                    source=source,
                    consumer=consumer,
                    position=position,
                    ack=consumer.acker(),
                    is_retry=is_retry,
                )
            )
        return wanted

    def _begin(self, letter: _Letter) -> None:
        key = (letter.position, letter.batch_index)
        if key in self._busy:
            letter.source.credit(letter.permits)
            return
        self._busy[key] = letter
        (self._retry_letters if letter.is_retry else self._dead_letters).start(lambda: self._run(letter))

    async def _run(self, letter: _Letter) -> None:
        error: Exception | None = None
        try:
            entry, remaining = await letter.consumer.read_entry(letter.position)
            await self._copy(letter, entry, remaining)
            self._failures = 0
        except (BrokerError, EntryCorrupt) as refusal:
            error = refusal
        except Exception as fault:
            logger.exception("%s: writing a letter failed unexpectedly", letter.consumer.topic_name)
            error = fault
        finally:
            self._busy.pop((letter.position, letter.batch_index), None)
            letter.source.credit(letter.permits)
        if error is not None and letter.consumer.has_pending(letter.position):
            self._failed(letter, error)

    def _failed(self, letter: _Letter, error: Exception) -> None:
        delay_ms = _AFTER_FAILURE.delay_ms(self._failures - 1) if self._failures else 0
        self._failures += 1
        logger.warning(
            "%s, subscription %s: writing a %s letter failed, so entry %s:%s is delivered again: %s",
            letter.consumer.topic_name,
            self._subscription,
            "retry" if letter.is_retry else "dead",
            *letter.position,
            error,
        )
        letter.source.acks.forget(*letter.position)
        letter.consumer.redeliver_at([letter.position], self._clock.now_ms() + delay_ms)

    async def _copy(self, letter: _Letter, entry: StoredEntry, remaining: int | None) -> None:
        """Write the letters, and ack each message whose letter is stored. Then raise the first failure, if any."""
        limit = self._broker.settings.max_uncompressed_bytes
        left = [
            message
            for message in decode_messages(entry.data, max_message_bytes=limit)
            if remaining is None or remaining >> max(message.batch_index, 0) & 1
        ]
        wanted = [each for each in left if letter.batch_index in (_WHOLE_ENTRY, each.batch_index)]
        answers = await asyncio.gather(
            *(self._write(letter, message) for message in wanted), return_exceptions=True
        )
        written = [
            message
            for message, answer in zip(wanted, answers, strict=True)
            if not isinstance(answer, BaseException)
        ]
        if written:
            topic = next(each for each in answers if isinstance(each, TopicName))
            is_retry = topic == self.retry_topic
            letter.consumer.letter_written(letter.position, topic.full, is_retry=is_retry)
        if len(written) == len(left):
            letter.ack([AckRequest(letter.position)])
        elif written:
            source = letter.source
            ids = [self._id(letter, message) for message in written]
            letter.ack([AckRequest(letter.position, ack.remaining) for ack in source.acks.individual(ids)])
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _write(self, letter: _Letter, message: Message) -> TopicName:
        consumer, now_ms = letter.consumer, self._clock.now_ms()
        topic = consumer.topic_name
        target, suffix, deliver_at_ms, initial = self.retry_topic, "RETRY", 0, None
        if letter.is_retry:
            properties = retry_properties(
                message.properties,
                topic=topic.full,
                message_id=self._id(letter, message),
                subscription=self._subscription,
                delay_ms=letter.delay_ms,
                custom=letter.properties,
            )
            deliver_at_ms = now_ms + letter.delay_ms if letter.delay_ms else 0
        else:
            properties = dead_letter_properties(
                message.properties,
                topic=topic.full,
                message_id=self._id(letter, message),
                subscription=self._subscription,
            )
        dead = self._dead_letter
        if dead is not None and (
            not letter.is_retry or times_reconsumed(properties) > dead.max_redeliver_count
        ):
            target, suffix, deliver_at_ms = self._dead_letter_topics[topic.base], "DLQ", 0
            initial = dead.initial_subscription
        assert target is not None
        producer = await self._producer(target, topic, suffix, initial)
        await producer.publish(
            OutgoingMessage.copy_of(message, properties),
            publish_time_ms=now_ms,
            max_message_bytes=self._broker.settings.max_message_bytes,
            key_hash=message_slot(message),
            deliver_at_ms=deliver_at_ms,
        )
        return target

    def _id(self, letter: _Letter, message: Message) -> MessageId:
        return MessageId(*letter.position, letter.source.partition, message.batch_index, message.batch_size)

    async def _producer(
        self, target: TopicName, topic: TopicName, suffix: str, initial_subscription: str | None
    ) -> InternalProducer:
        opening = self._producers.get(target.full)
        if opening is None:
            name = (
                f"{topic.base}-{self._subscription}-{self._consumer_name}-{secrets.token_hex(3)[:5]}-{suffix}"
            )
            opening = self._producers[target.full] = asyncio.ensure_future(
                InternalProducer.open(
                    self._broker, target, name=name, initial_subscription=initial_subscription
                )
            )
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._producers.get(target.full) is opening:
                del self._producers[target.full]
            raise

    def lost(self) -> None:
        """Drop the queued letters. Letters being written are finished in the background. Safe to repeat."""
        self._dead_letters.drop_waiting()
        self._retry_letters.drop_waiting()
        if self._producers or self._busy:
            self._busy.clear()
            finishing = asyncio.ensure_future(self._finish())
            _FINISHING.add(finishing)
            finishing.add_done_callback(_FINISHING.discard)

    async def _finish(self) -> None:
        await self._dead_letters.finish(_FINISH_S)
        await self._retry_letters.finish(_FINISH_S)
        producers, self._producers = self._producers, {}
        for opening in producers.values():
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().detach()
            else:
                opening.cancel()


# The event loop has only weak references to tasks. This set keeps the tasks alive.
_FINISHING: Final[set[asyncio.Future[None]]] = set()
