"""Turn a delivery into messages for the application, or discard it with one ack.

`entry_opening` checks an entry; this module acts on the result. The consumer grants a message's permit again when the
application takes the message, and the other permits of its entry at once.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

from vela.core.consuming.chunk_assembly import Chunk, ChunkAssembler, ChunkOutcome
from vela.core.consuming.entry_opening import (
    Damaged,
    OpenedEntry,
    Undecryptable,
    entry_cost,
    join_chunks,
    open_entry,
)
from vela.encryption.context import EncryptionContext, context_of
from vela.message import Message, MessageId, ReceivedEntry
from vela.options import ConsumerCryptoFailureAction
from vela.wire.binary.enums import ValidationError
from vela.wire.entry.batches import Message as Body
from vela.wire.entry.decoding import single_message
from vela.wire.entry.header import MAX_JOINED_BYTES
from vela.wire.errors import MetadataCorrupt

if TYPE_CHECKING:
    from vela.aio.acks.side import AckSide
    from vela.aio.connections.connection import Connection
    from vela.aio.timers import Timer, Timers
    from vela.core.consuming.counters import ConsumerCounters
    from vela.core.consuming.delivery_options import DeliveryOptions
    from vela.core.consuming.read_position import ReadPosition
    from vela.core.consuming.start_position import StartPosition
    from vela.core.flow.flow_control import FlowControl
    from vela.wire.binary import replies

__all__ = ["Intake", "IntakeOwner"]

logger = logging.getLogger(__name__)

_SETTLES_DISCARDS: Final = "Vela"
"""Version prefix of brokers that restore all permits of a discarded batch except one.

They do so because most clients grant one permit for a discarded batch, however many permits it cost. For an entry that
cannot be decrypted, these clients grant all permits, so the brokers restore none.
"""


class IntakeOwner(Protocol):
    """The part of a consumer's deliveries that the intake needs."""

    @property
    def flow(self) -> FlowControl:
        """Return the permits of the consumer."""

    acks: AckSide
    counters: ConsumerCounters
    read_position: ReadPosition
    epoch: int | None

    def show(self, messages: list[Message], is_batch: bool) -> None:
        """Pass messages to the application, in order."""


class Intake:
    """Opens the deliveries of one consumer. Call `receive` for each delivery over its current connection."""

    def __init__(
        self,
        owner: IntakeOwner,
        receiver: object,
        topic: str,
        options: DeliveryOptions,
        timers: Timers,
    ) -> None:
        """`receiver` is the consumer that the application acknowledges the messages to."""
        self.generation = 0
        """Number of the current connection. Messages of earlier connections are outdated."""
        self._owner = owner
        self._receiver = receiver
        self._topic = topic
        self._options = options
        self._decrypt = options.decrypt
        self._timers = timers
        self._chunks: ChunkAssembler[MessageId] = ChunkAssembler(
            max_pending=options.max_pending_chunked_messages,
            expiry_ms=options.chunk_expiry_ms,
            auto_ack_oldest=options.acks_oldest_chunks,
        )
        self._expiry: Timer | None = None

    def attached(self) -> None:
        """Start with a new connection, over which the broker delivers incomplete messages again."""
        self.generation += 1
        self.close()

    def close(self) -> None:
        """Forget the chunks of incomplete messages."""
        self._chunks.clear()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def pass_over(self, reply: replies.Message) -> None:
        """Skip an outdated delivery and grant its permits again."""
        self._owner.counters.stale_entries += 1
        self._owner.flow.not_shown(entry_cost(reply.entry_block, reply.ack_set))

    def receive(self, connection: Connection, reply: replies.Message) -> None:
        """Process one delivery."""
        ledger_id, entry_id, ack_set = reply.ledger_id, reply.entry_id, reply.ack_set
        try:
            opened = open_entry(
                reply.entry_block,
                ack_set,
                max_message_bytes=connection.max_message_bytes,
                max_uncompressed_bytes=self._options.max_uncompressed_bytes,
                decrypt=self._decrypt,
            )
        except Damaged as damage:
            self._discard(connection, reply, damage)
            return
        except Undecryptable as error:
            self._undecryptable(connection, reply, error)
            return
        owner = self._owner
        start = owner.read_position.start
        if start is not None and self._options.is_durable and start.follows(ledger_id, entry_id):
            # The broker sends nothing before the target of a seek, so someone has moved the cursor back since then.
            owner.read_position.start = start = None
        if opened.piece is not None:
            self._add_chunk(connection, reply, opened, opened.piece)
            return
        bodies = opened.messages
        batch_size = opened.batch_size
        if start is not None and start.ledger_id == ledger_id and start.entry_id == entry_id:
            bodies = self._from_start(start, reply, bodies)
        if batch_size and len(bodies) != batch_size:
            # Acks of these messages complete the entry. Its other messages are already acked or skipped.
            ack_set = _bits(bodies)
        acked = owner.acks.delivered(ledger_id, entry_id, batch_size, ack_set)
        if acked:  # acks of this consumer that were not sent yet
            bodies = [body for body in bodies if not acked >> max(body.batch_index, 0) & 1]
        metadata = opened.metadata
        context = context_of(metadata, failed=False) if len(metadata.encryption_keys) else None
        self._show(reply, bodies, batch_size, opened.charged, context)

    def _show(
        self,
        reply: replies.Message,
        bodies: list[Body],
        batch_size: int,
        charged: int,
        encryption: EncryptionContext | None = None,
    ) -> None:
        """Pass the remaining messages of an entry to the application, and grant the other permits again at once."""
        owner = self._owner
        count = len(bodies)
        if count != charged:
            owner.flow.not_shown(charged - count)
        if bodies:
            owner.counters.messages_delivered += count
            entry = self._entry(reply, batch_size)
            entry.encryption = encryption
            owner.show([Message(body, entry) for body in bodies], batch_size > 0)

    def _entry(self, reply: replies.Message, batch_size: int) -> ReceivedEntry:
        entry = ReceivedEntry(
            self._topic,
            reply.ledger_id,
            reply.entry_id,
            reply.partition,
            reply.redelivery_count,
            batch_size,
            self._options.schema,
            self._receiver,
        )
        entry.generation = self.generation
        entry.epoch = self._owner.epoch
        return entry

    def _from_start(self, start: StartPosition, reply: replies.Message, bodies: list[Body]) -> list[Body]:
        """Return the messages that the start does not skip.

        If no message is left and the subscription is durable, ack the entry: a seek past its messages means that they
        were processed. Without the ack, the backlog would never become 0.
        """
        kept = [body for body in bodies if not start.skips(reply.ledger_id, reply.entry_id, body.batch_index)]
        if bodies and not kept and self._options.is_durable:
            self._owner.acks.acknowledge(MessageId(reply.partition, reply.ledger_id, reply.entry_id))
            # If the entry comes again, someone has moved the cursor back.
            self._owner.read_position.start = None
        return kept

    # --- entries that cannot be shown

    def _discard(self, connection: Connection, reply: replies.Message, damage: Damaged) -> None:
        """Ack a damaged entry without waiting, tell the broker the reason, and show the messages before the damage."""
        owner = self._owner
        owner.counters.discards[damage.reason] += 1
        count = owner.counters.discards[damage.reason]
        logger.log(
            logging.WARNING if _is_worth_a_line(count) else logging.DEBUG,
            "%s: entry %s:%s is discarded as %s: %s (%d so far)",
            self._topic,
            reply.ledger_id,
            reply.entry_id,
            damage.reason.name,
            str(damage),  # text only: the error's traceback would keep the payload in memory
            count,
        )
        owner.counters.receives_failed += 1
        owner.acks.discard(reply.ledger_id, reply.entry_id, damage.reason)
        settled = damage.reason is not ValidationError.DECRYPTION_ERROR and _settles_discards(connection)
        charged = 1 if settled else damage.charged
        bodies = damage.messages
        # The batch ends with its last readable message, so that the ack side forgets the batch when all readable
        # messages are acked.
        batch_size = bodies[-1].batch_index + 1 if bodies else 0
        if bodies:
            owner.acks.delivered(reply.ledger_id, reply.entry_id, batch_size, _bits(bodies))
        self._show(reply, bodies, batch_size, charged)

    def _undecryptable(self, connection: Connection, reply: replies.Message, error: Undecryptable) -> None:
        """Handle an entry that cannot be decrypted, as the consumer's `crypto_failure_action` says."""
        self._owner.counters.undecryptable_entries += 1
        action = self._options.crypto_failure_action
        if action is ConsumerCryptoFailureAction.DISCARD:
            self._discard(
                connection, reply, Damaged(ValidationError.DECRYPTION_ERROR, error.charged, str(error))
            )
            return
        entry = self._entry(reply, 0)
        try:
            body = single_message(error.metadata, error.payload)
        except MetadataCorrupt as corrupt:
            damage = Damaged(ValidationError.CHECKSUM_MISMATCH, error.charged, str(corrupt))
            self._discard(connection, reply, damage)
            return
        message = Message(body, entry)
        if action is ConsumerCryptoFailureAction.CONSUME:
            entry.encryption = context_of(error.metadata, failed=True)
            self._owner.flow.not_shown(error.charged - 1)
            self._owner.counters.messages_delivered += 1
            self._owner.show([message], False)
            return
        count = self._owner.counters.undecryptable_entries
        if _is_worth_a_line(count):
            logger.warning(
                "%s: entry %s:%s stays unacknowledged, because it cannot be decrypted: %s (%d so far)",
                self._topic,
                reply.ledger_id,
                reply.entry_id,
                str(error),  # text only, as in `_discard`
                count,
            )
        self._owner.acks.taken(message)  # so that the ack timeout, if any, requests redelivery
        self._owner.flow.not_shown(error.charged)

    # --- chunked messages

    def _add_chunk(
        self, connection: Connection, reply: replies.Message, opened: OpenedEntry, piece: bytes
    ) -> None:
        metadata = opened.metadata
        chunk = Chunk(
            metadata.uuid,
            metadata.chunk_id,
            metadata.num_chunks_from_msg,
            metadata.total_chunk_msg_size,
            int(time.time() * 1000) - metadata.publish_time,
        )
        message_id = MessageId(reply.partition, reply.ledger_id, reply.entry_id, topic=self._topic)
        outcome = self._chunks.add(chunk, message_id, piece, self._timers.now_ms())
        self._give_up(outcome)
        self._watch_expiry()
        if outcome.payload is None:
            self._owner.flow.not_shown(1)
            return
        try:
            body = join_chunks(metadata, outcome.payload, max_joined_bytes=MAX_JOINED_BYTES)
        except Damaged as damage:
            for earlier in outcome.ids[:-1]:
                self._owner.acks.discard(earlier.ledger_id(), earlier.entry_id(), damage.reason)
            self._discard(connection, reply, damage)
            return
        start, first = self._owner.read_position.start, outcome.ids[0]
        if start is not None and start.skips(first.ledger_id(), first.entry_id(), -1):
            self._owner.flow.not_shown(1)
            if self._options.is_durable:
                self._owner.acks.acknowledge(outcome.ids)
                self._owner.read_position.start = None
            return
        entry = self._entry(reply, 0)
        entry.chunks = outcome.ids
        self._owner.counters.messages_delivered += 1
        self._owner.show([Message(body, entry)], False)

    def _give_up(self, outcome: ChunkOutcome[MessageId]) -> None:
        if outcome.acknowledge:
            self._owner.acks.acknowledge(outcome.acknowledge)
        for message_id in outcome.redeliver:
            self._owner.acks.deliver_later(message_id)

    def _watch_expiry(self) -> None:
        due_ms = self._chunks.next_expiry_ms()
        if self._expiry is None and due_ms is not None:
            delay_ms = max(1, due_ms - self._timers.now_ms())
            self._expiry = self._timers.call_later(delay_ms, self._expire_chunks)

    def _expire_chunks(self) -> None:
        self._expiry = None
        expired = self._chunks.take_expired(self._timers.now_ms())
        if expired:
            logger.warning(
                "%s: %d chunks are acknowledged, because the other chunks did not arrive in time",
                self._topic,
                len(expired),
            )
            self._owner.acks.acknowledge(expired)
        self._watch_expiry()


def _settles_discards(connection: Connection) -> bool:
    return connection.server_version.startswith(_SETTLES_DISCARDS)


def _is_worth_a_line(count: int) -> bool:
    """Return whether to log a warning: for the 1st, 2nd, 4th, 8th …, so that a faulty producer cannot fill the log."""
    return count & (count - 1) == 0


def _bits(bodies: list[Body]) -> int:
    bits = 0
    for body in bodies:
        bits |= 1 << body.batch_index
    return bits
