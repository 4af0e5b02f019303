"""The frames that consumers sent through a relay, and the permits of one consumer, as the broker sees them."""

from __future__ import annotations

from collections.abc import Sequence

from broker.doors.binary.wire import events
from tests.support.frame_relay import Frame, FrameRelay
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.wire.binary.fields import parse_command
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

__all__ = ["PermitAccount", "acked", "asked_again", "fence"]


class PermitAccount:
    """The permits that the only consumer behind a relay has granted since it last subscribed, and how many are spent.

    Entries count as one message each, so publish without batches.
    """

    def __init__(self, relay: FrameRelay) -> None:
        self._relay = relay
        self.flows: list[int] = []
        """Permits of each FLOW."""
        self.messages = 0
        """How many messages the broker sent."""
        self.most_outstanding = 0
        """The most permits that the broker ever had at once."""
        relay.to_broker = self._from_client
        relay.to_client = self._from_broker

    @property
    def outstanding(self) -> int:
        """Permits that the broker has not spent."""
        return sum(self.flows) - self.messages

    def _from_client(self, frame: Frame) -> Sequence[Frame]:
        event = self._relay.sent[-1]
        if isinstance(event, events.Subscribe):
            self.flows, self.messages = [], 0
        elif isinstance(event, events.Flow):
            self.flows.append(event.permits)
            self.most_outstanding = max(self.most_outstanding, self.outstanding)
        return (frame,)

    def _from_broker(self, frame: Frame) -> Sequence[Frame]:
        self.messages += parse_command(frame.command).type == BaseCommand.MESSAGE
        return (frame,)


async def fence(consumer: Consumer) -> None:
    """Return when everything that the consumer has sent so far has passed the relay."""
    await consumer.get_last_message_id()


def acked(relay: FrameRelay) -> list[list[tuple[int, int | None]]]:
    """Return the entries of every ACK, each with the bits of its unacked messages, or with None if all are acked."""
    return [[(each.entry_id, each.ack_set) for each in ack.ids] for ack in relay.of(events.Ack)]


def asked_again(relay: FrameRelay, consumer: TopicConsumer) -> list[list[int]]:
    """Return the entries that the consumer asked for again, one list for each of its redelivery requests."""
    return [
        [entry_id for _, entry_id in request.positions]
        for request in relay.of(events.Redeliver)
        if request.consumer_id == consumer.consumer_id
    ]
