"""`/ws/v2/consumer/…` and `/ws/v3/consumer/…?topics=`: messages pushed, acks taken (reference A7 … A10)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.subscription import SubscriptionType
from broker.core.topic_name import TopicName
from broker.service.values import SubscribeRequest
from broker.transports.push_handler import PushHandler
from vela.wire.json.consumer import (
    Acknowledge,
    ConsumerCommand,
    IsEndOfTopic,
    NegativeAcknowledge,
    Permit,
    Unsubscribe,
    decode_commands,
    end_of_topic_frame,
)
from vela.wire.json.errors import HandshakeRefused, InvalidCommand
from vela.wire.json.options import InitialPosition, SubscriptionMode
from vela.wire.json.window import DeliveryWindow

if TYPE_CHECKING:
    from broker.service.clock import Clock
    from broker.transports.delivery_source import DeliverySource
    from broker.transports.fragment_cache import FragmentCache
    from broker.transports.ports import BrokerPort
    from broker.transports.web_socket import Socket
    from vela.wire.json.options import ConsumerOptions
    from vela.wire.message_id import MessageId

__all__ = ["ConsumerHandler"]


class ConsumerHandler(PushHandler):
    """One consuming socket."""

    def __init__(
        self,
        broker: BrokerPort,
        socket: Socket,
        clock: Clock,
        cache: FragmentCache,
        topics: Sequence[str],
        subscription: str,
        options: ConsumerOptions,
    ) -> None:
        window = DeliveryWindow.pull() if options.pull_mode else DeliveryWindow.push(options.window)
        super().__init__(broker, socket, clock, cache, window)
        self._topics = topics
        self._subscription = subscription
        self._options = options
        self._name = options.consumer_name or secrets.token_hex(5)

    async def open(self) -> None:
        """Subscribe to every topic and partition."""
        await self.subscribe(self._topics, self._request)

    def _request(self, topic: TopicName, partitions: int) -> SubscribeRequest:
        options = self._options
        earliest = options.initial_position is InitialPosition.EARLIEST
        durable = options.subscription_mode is SubscriptionMode.DURABLE
        return SubscribeRequest(
            topic=topic,
            subscription=self._subscription,
            type=SubscriptionType(options.subscription_type.value),
            consumer_name=self._name,
            durable=durable,
            priority=options.priority_level,
            earliest=earliest,
            start=None if durable else EARLIEST if earliest else LATEST,
            ack_timeout_ms=options.ack_timeout_ms,
            receiver_queue=options.receiver_queue_size,
        )

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """Pulsar's wording (A3)."""
        return HandshakeRefused(status, f"Failed to create consumer: {reason}")

    def opened(self) -> None:
        """Push mode begins at once; pull mode waits for permits, several sources prefetch for them."""
        if not self.window.is_pull:
            self.start(self._options.window)
        else:
            self.start(self._options.window if len(self.sources) > 1 else 0)

    async def on_text(self, text: str) -> None:
        """One command or an array of them."""
        acked: dict[DeliverySource, list[MessageId]] = {}
        for command in decode_commands(text, self.known):
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
            self.settled(source, len(ids))

    async def _apply(self, command: ConsumerCommand) -> None:
        match command:
            case Acknowledge():
                source = self.source_of(command.message_id)
                source.ack_through(source.acks.cumulative(command.message_id))
                self.settled(source, 1)
            case NegativeAcknowledge(message_id=message_id):
                source = self.source_of(message_id)
                due_ms = self.clock.now_ms() + self._options.negative_ack_redelivery_delay_ms
                source.redeliver_at(Position(message_id.ledger_id, message_id.entry_id), due_ms)
                self.settled(source, 1)
            case Permit(messages=messages):
                credit = self.window.permit(messages)
                if len(self.sources) == 1:
                    self.sources[0].credit(credit)
                else:
                    self.drain_soon()
            case Unsubscribe():
                await self._unsubscribe()
            case IsEndOfTopic():
                self.socket.write_frames((end_of_topic_frame(self.is_end_of_topic),), binary=False)

    async def _unsubscribe(self) -> None:
        self.is_letting_go = True
        for source in self.sources:
            if source.consumer is None:
                continue
            try:
                await source.consumer.unsubscribe(force=False)
            except BrokerError as error:
                raise InvalidCommand(f"unsubscribe: {error}") from None
