"""Consumers in the WebSocket API, `/ws/v2/consumer/…`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.access.permissions import Action
from broker.core.errors import BrokerError
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.subscription.types import SubscriptionType, check_name
from broker.core.topic_name import TopicName
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.websocket.consumer.letters import Letters
from broker.doors.websocket.consumer.option_warnings import option_warnings
from broker.doors.websocket.consumer.push_socket import PushSocket
from broker.doors.websocket.json.batch_acks import BatchAcks
from broker.doors.websocket.json.consumer import (
    Acknowledge,
    ConsumerCommand,
    IsEndOfTopic,
    NegativeAcknowledge,
    Permit,
    ReconsumeLater,
    Unsubscribe,
    decode_commands,
)
from broker.doors.websocket.json.errors import InvalidCommand
from broker.doors.websocket.json.options import InitialPosition, SubscriptionMode, consumer_options
from broker.doors.websocket.json.paths import full_topic, subscription_name
from broker.doors.websocket.json.unanswered import Unanswered
from broker.doors.websocket.json.window import DeliveryWindow
from broker.doors.websocket.socket import only_text
from broker.subscription.requests import SubscribeRequest

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.consumer.delivery_source import DeliverySource
    from broker.doors.websocket.consumer.fragment_cache import FragmentCache
    from vela.wire.message_id import MessageId

__all__ = ["ConsumerSocket"]


class ConsumerSocket(PushSocket):
    """One consumer at `/ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}`.

    A source is a subscribed topic or partition. A letter is a message for the dead-letter topic or the retry topic.
    """

    def __init__(self, *, broker: BrokerPort, clock: Clock, fragments: FragmentCache) -> None:
        super().__init__(broker=broker, clock=clock, fragments=fragments)
        self.letters: Letters | None = None

    async def connect(self) -> None:
        """Subscribe, accept the handshake, and begin to deliver."""
        topics = self.read_address()
        options = self.options = consumer_options(self.query)
        self._name = options.consumer_name or secrets.token_hex(5)
        self._warnings = tuple(option_warnings(options))
        self.window = DeliveryWindow.pull() if options.pull_mode else DeliveryWindow.push(options.window)
        async with self.opening():
            await self.attach(topics)
        await self.accept(headers=_warning_headers(self._warnings))
        self.start(self.prefetched)

    @property
    def prefetched(self) -> int:
        """The number of permits that the socket grants at the start."""
        return 0 if self.options.pull_mode and self.has_one_source else self.options.window

    def read_address(self) -> Sequence[str]:
        """Set `subscription` and return the full topic names. Raises InvalidQuery."""
        topic = full_topic(self.path_arguments)
        self.subscription = subscription_name(self.path_arguments["subscription"])
        return (topic,)

    async def attach(self, asked: Sequence[str]) -> None:
        """Subscribe to these topics without granting permits. Raises BrokerError."""
        options, topics = self.options, list(asked)
        if options.dead_letter is not None:
            letters = self.letters = self.letters or Letters(
                self.broker,
                self.clock,
                subscription=self.subscription,
                consumer_name=self._name,
                dead_letter=options.dead_letter,
                retry=options.retry,
            )
            topics = await letters.resolve(topics, without_own=self.is_growing)
            # Report a missing permission now, not when the first letter is written.
            for each in letters.topics:
                self.guard.check_topic(Action.PRODUCE, each)
            if (initial := options.dead_letter.initial_subscription) is not None:
                check_name(initial)
                for each in letters.dead_letter_topics:
                    self.guard.check_topic(Action.CONSUME, each, initial)
            if letters.retry_topic is not None:
                topics.append(letters.retry_topic.full)
            topics = list(dict.fromkeys(topics))
        for name in topics:  # Check all topics first, because a refusal must leave no subscription behind
            self.guard.check_topic(Action.CONSUME, TopicName.parse(name), self.subscription)
        first_new = len(self.sources)
        await self.subscribe(topics, self._request, options.crypto_failure_action)
        batch_index_acks = options.batch_index_acks and self.broker.settings.batch_index_acks
        is_cumulative = SubscriptionType(options.subscription_type.value).single_active
        for source in self.sources[first_new:]:
            source.acks = BatchAcks(batch_index_acks=batch_index_acks)
            if is_cumulative and not options.pull_mode:
                source.unanswered = Unanswered()
            if self.letters is not None:
                self.letters.attend(source)
            if source.consumer is not None and self._is_retry_topic(source.consumer.topic_name):
                # The answer to `isEndOfTopic` must not depend on the retry topic.
                source.is_ended = True

    def _request(self, topic: TopicName, partitions: int) -> SubscribeRequest:
        options = self.options
        earliest = options.initial_position is InitialPosition.EARLIEST
        durable = options.subscription_mode is SubscriptionMode.DURABLE
        backoff = options.ack_timeout_backoff
        return SubscribeRequest(
            topic=topic,
            subscription=self.subscription,
            type=SubscriptionType(options.subscription_type.value),
            consumer_name=self._name,
            durable=durable,
            priority=options.priority_level,
            earliest=earliest,
            start=None if durable else EARLIEST if earliest else LATEST,
            create_topic=not self.is_growing,
            ack_timeout_ms=options.ack_timeout_ms,
            ack_timeout_tick_ms=options.ack_timeout_tick_ms,
            ack_timeout_backoff=backoff.delay_ms if backoff is not None else None,
            warnings=() if self._is_retry_topic(topic) else self._warnings,
            dead_letter_topic=None if self.letters is None else self.letters.dead_letter_topic(topic),
        )

    def _is_retry_topic(self, topic: TopicName) -> bool:
        retry_topic = None if self.letters is None else self.letters.retry_topic
        return retry_topic is not None and retry_topic.full == topic.base

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """Return the refusal in Pulsar's wording."""
        return HandshakeRefused(status, f"Failed to create consumer: {reason}")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Carry out the commands of one frame."""
        acked: dict[DeliverySource, list[MessageId]] = {}
        self.taken = 0
        for command in decode_commands(only_text(text_data), self.known):
            self.taken += 1
            if type(command) is Acknowledge and not command.cumulative:
                acked.setdefault(self.source_of(command.message_id), []).append(command.message_id)
            else:
                self._ack(acked)
                acked = {}
                await self._apply(command)
        self._ack(acked)

    def _ack(self, acked: dict[DeliverySource, list[MessageId]]) -> None:
        for source, ids in acked.items():
            source.ack(source.acks.individual(ids))
            self._answered(source, ids)

    def _answered(self, source: DeliverySource, ids: Sequence[MessageId]) -> None:
        if source.unanswered is not None:
            for message_id in ids:
                source.unanswered.answered(message_id)
        self.settled(source, len(ids))

    def _answered_through(self, source: DeliverySource, message_id: MessageId) -> None:
        messages = 0 if source.unanswered is None else source.unanswered.answered_through(message_id)
        self.settled(source, max(1, messages))

    async def _apply(self, command: ConsumerCommand) -> None:
        match command:
            case Acknowledge():
                source = self.source_of(command.message_id)
                source.ack_through(source.acks.cumulative(command.message_id))
                self._answered_through(source, command.message_id)
            case NegativeAcknowledge(message_id=message_id):
                self._nack(self.source_of(message_id), message_id)
            case ReconsumeLater(message_id=message_id, delay_ms=delay_ms, properties=properties):
                await self._reconsume_later(message_id, delay_ms, properties)
            case Permit(messages=messages):
                credit = self.window.permit(messages)
                if self.has_one_source:
                    self.sources[0].credit(credit)
                else:
                    self.drain_soon()
            case Unsubscribe():
                await self._unsubscribe()
            case IsEndOfTopic():
                await self.answer_end_of_topic(1)

    def _nack(self, source: DeliverySource, message_id: MessageId) -> None:
        options, position = self.options, Position(message_id.ledger_id, message_id.entry_id)
        delay_ms = options.negative_ack_redelivery_delay_ms
        if options.negative_ack_backoff is not None and source.consumer is not None:
            delay_ms = options.negative_ack_backoff.delay_ms(source.consumer.redelivery_count(position))
        source.redeliver_at(position, self.clock.now_ms() + delay_ms)
        self._answered(source, (message_id,))

    async def _reconsume_later(
        self, message_id: MessageId, delay_ms: int, properties: dict[str, str]
    ) -> None:
        if self.letters is None or self.letters.retry_topic is None:
            raise InvalidCommand("reconsumeLater needs retryEnable=true in the address")
        source = self.source_of(message_id)
        self.letters.reconsume_later(source, message_id, delay_ms, properties)
        self._answered(source, (message_id,))
        await self.transport.share.away(self.letters.has_room())

    def release(self) -> None:
        """Release the sources and drop the queued letters. The other letters are finished in the background."""
        super().release()
        if self.letters is not None:
            self.letters.lost()

    async def _unsubscribe(self) -> None:
        self.is_letting_go = True
        for source in self.sources:
            if source.consumer is None:
                continue
            try:
                await self.transport.share.away(source.consumer.unsubscribe(force=False))
            except BrokerError as error:
                raise InvalidCommand(f"unsubscribe: {error}") from None


def _warning_headers(warnings: Sequence[str]) -> list[tuple[bytes, bytes]]:
    return [(b"X-Vela-Warning", "; ".join(warnings).encode())] if warnings else []
