"""The broker's side of one attached producer."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.errors import BrokerError, NotAllowed, PersistenceFailed
from broker.log.sends import Receipt

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.policies import Policies
    from broker.core.producers.access import AccessMode
    from broker.core.topic_name import TopicName
    from broker.log.sends import SendRequest
    from broker.producers.publish_budget import PublishAccount
    from broker.producers.requests import ProducerRequest, ProducerSink

__all__ = ["Producer", "ProducerTopic", "Repeat"]

logger = logging.getLogger(__name__)

_LAST_SEQUENCE_ID: Final = 2**63 - 1
_NOWHERE = -1  # Ledger id and entry id in the receipt of a repeat


class ProducerTopic(Protocol):
    """The part of a topic that its producers use."""

    name: TopicName
    policies: Policies
    publishes: PublishAccount

    @property
    def is_open(self) -> bool: ...
    def append(self, producer: Producer, request: SendRequest) -> None: ...
    def remove_producer(self, producer: Producer) -> None: ...
    def producer_refused(self) -> None: ...


class Repeat:
    """A repeated send of a message that is stored or being stored."""

    __slots__ = ("is_stored", "number", "request")

    def __init__(self, number: int, request: SendRequest, *, is_stored: bool) -> None:
        self.number = number  # Number of receipts that the producer gets before the repeat's receipt
        self.request = request
        self.is_stored = is_stored

    def receipt(self) -> Receipt:
        """Return the receipt for the client."""
        request = self.request
        return Receipt(
            request.sequence_id, request.highest_sequence_id, _NOWHERE, _NOWHERE, len(request.data)
        )


class Producer:
    """Accepts sends while `is_ready` is True. Receipts go to the sink in the order of the sends."""

    def __init__(
        self,
        *,
        key: int,
        topic: ProducerTopic,
        name: str,
        request: ProducerRequest,
        identity: ClientIdentity,
        sink: ProducerSink,
        now_ms: int,
    ) -> None:
        self.key = key
        self.name = name
        # Drop the schema, which may take a megabyte.
        self.request = replace(request, schema=None)
        self.identity = identity
        self.sink = sink
        self.connected_ms = now_ms
        self.last_sequence_id = -1  # Last sequence id stored before the producer opened
        self.schema_version = b""
        self.topic_epoch: int | None = None  # None if the producer is not exclusive
        self.messages_in = 0
        self.bytes_in = 0
        self.last_sent_sequence_id = -1
        self.last_send_ms = 0
        self.last_error = ""
        self._topic = topic
        self._pending = 0
        self._settled = 0
        self._repeats: list[Repeat] = []
        self._idle: asyncio.Event | None = None
        self.is_open = True
        self.is_ready = False
        self._throttles: set[object] = set()

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition of the producer."""
        return self._topic.name

    @property
    def access_mode(self) -> AccessMode:
        """The access mode of the producer."""
        return self.request.access_mode

    @property
    def max_message_bytes(self) -> int:
        """The policy's limit for a payload. 0 means only the broker's limit applies."""
        return self._topic.policies.max_message_bytes

    @property
    def is_settled(self) -> bool:
        """Whether every send is answered, or the topic is closed."""
        return self._pending <= 0 or not self._topic.is_open

    @property
    def is_deduplicated(self) -> bool:
        """Whether a repeated sequence id means a repeated send."""
        return self.identity.face != "internal"

    def send(self, request: SendRequest) -> None:
        """Queue one entry. The sink gets the answer."""
        if not self.is_ready:
            self.sink.on_send_failed(request, PersistenceFailed("the producer is not open; open it again"))
            return
        if request.sequence_id > _LAST_SEQUENCE_ID or request.highest_sequence_id > _LAST_SEQUENCE_ID:
            used_up = NotAllowed(
                f"producer {self.name} has used the last sequence id, {_LAST_SEQUENCE_ID}: use another producer name"
            )
            self.refused(used_up)
            self.sink.on_send_failed(request, used_up)
            return
        self._pending += 1
        self._topic.publishes.add(self, len(request.data))
        self._topic.append(self, request)

    def repeat(self, request: SendRequest, *, is_stored: bool) -> Repeat:
        """Record that the latest send repeats an earlier send."""
        repeat = Repeat(self._settled + self._pending - 1, request, is_stored=is_stored)
        self._repeats.append(repeat)
        if is_stored:
            self.settle_repeats()
        return repeat

    def settle_repeats(self) -> None:
        """Send the receipts of repeats whose turn has come."""
        receipts: list[Receipt] = []
        while self._is_turn_of_repeat(len(receipts)):
            receipts.append(self._repeats.pop(0).receipt())
        if receipts:
            self._forget(len(receipts))
            self._answer(receipts)

    def answered(self, receipts: list[Receipt], messages: int, size_bytes: int, now_ms: int) -> None:
        """Count sends and pass their receipts to the sink."""
        self.messages_in += messages
        self.bytes_in += size_bytes
        self.last_send_ms = now_ms
        self.last_sent_sequence_id = receipts[-1].sequence_id
        if self._repeats:
            receipts = self._with_repeats(receipts)
        self._forget(len(receipts))
        self._answer(receipts)

    def _with_repeats(self, receipts: list[Receipt]) -> list[Receipt]:
        merged: list[Receipt] = []
        for receipt in receipts:
            while self._is_turn_of_repeat(len(merged)):
                merged.append(self._repeats.pop(0).receipt())
            merged.append(receipt)
        while self._is_turn_of_repeat(len(merged)):
            merged.append(self._repeats.pop(0).receipt())
        return merged

    def _is_turn_of_repeat(self, answered_now: int) -> bool:
        repeats = self._repeats
        return bool(repeats) and repeats[0].is_stored and repeats[0].number <= self._settled + answered_now

    def _answer(self, receipts: list[Receipt]) -> None:
        self._settled += len(receipts)
        self._topic.publishes.subtract(sum(each.size_bytes for each in receipts))
        if self.is_open:
            try:
                self.sink.on_receipts(receipts)
            except Exception:  # Other producers must still get their receipts
                logger.exception(
                    "producer %s is closed: writing receipts failed", self.name, extra=self._log_fields()
                )
                self.closed_by_broker(
                    PersistenceFailed("a receipt could not be written; open the producer again")
                )
                self._topic.remove_producer(self)

    def failed(self, request: SendRequest, error: BrokerError) -> None:
        """Tell the client at once that a send is refused.

        The send must be the producer's latest, unless the broker is about to close the producer.
        """
        self.refused(error)
        self._forget(1)
        self._topic.publishes.subtract(len(request.data))
        if self.is_open:
            try:
                self.sink.on_send_failed(request, error)
            except Exception:
                logger.exception("producer %s: writing a refusal failed", self.name, extra=self._log_fields())

    def refused(self, error: BrokerError) -> None:
        """Record why a send was refused."""
        self.last_error = f"{error.code}: {error}"
        self._topic.producer_refused()

    def admitted(self, topic_epoch: int | None) -> None:
        """Allow sends. `topic_epoch` is None unless the producer is exclusive."""
        self.topic_epoch = topic_epoch
        self.is_ready = self.is_open

    def throttle(self, limit: object, *, throttled: bool) -> None:
        """Stop or resume reading from the client. Reading resumes only after every limit allows it."""
        was_throttled = bool(self._throttles)
        if throttled:
            self._throttles.add(limit)
        else:
            self._throttles.discard(limit)
        self._tell_transport(was_throttled)

    def _tell_transport(self, was_throttled: bool) -> None:
        is_throttled = bool(self._throttles)
        if is_throttled is not was_throttled and self.request.on_throttled is not None:
            try:
                self.request.on_throttled(is_throttled)
            except Exception:  # A broken transport must not stop the topic
                logger.exception(
                    "producer %s: pausing or resuming its transport failed",
                    self.name,
                    extra=self._log_fields(),
                )

    async def close(self) -> None:
        """Wait for the pending answers, then detach."""
        while self._pending > 0 and self.is_open:
            if self._idle is None:
                self._idle = asyncio.Event()
            self._idle.clear()
            await self._idle.wait()
        self.detach()

    def detach(self) -> None:
        """Detach from the topic. Queued sends will still be stored. Safe to repeat."""
        if self.is_open:
            self._end()
            self._topic.remove_producer(self)

    def closed_by_broker(self, error: BrokerError | None) -> None:
        """Close the producer and tell its client. Safe to repeat."""
        if self.is_open:
            self._end()
            if self._idle is not None:
                self._idle.set()
            self._topic.remove_producer(self)
            try:
                self.sink.on_producer_closed(error)
            except Exception:
                logger.exception(
                    "producer %s: its client was not notified that the producer is closed",
                    self.name,
                    extra=self._log_fields(),
                )

    def _log_fields(self) -> dict[str, str]:
        return {"topic": str(self.topic_name), "producer": self.name}

    def _end(self) -> None:
        self.is_open = self.is_ready = False
        was_throttled = bool(self._throttles)
        self._throttles.clear()
        self._tell_transport(was_throttled)

    def _forget(self, count: int) -> None:
        self._pending -= count
        if self._pending <= 0 and self._idle is not None:
            self._idle.set()
