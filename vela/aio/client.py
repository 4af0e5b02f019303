"""`vela.aio.Client`: connections, lookups, and the producers, consumers and readers created with it."""

# Over 400 lines, because it has long signatures and explains their arguments. Other modules do the work.

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from vela.aio.client_ports import Closes
from vela.aio.connections.connection import Connection
from vela.aio.connections.lookup import LookupService
from vela.aio.connections.pool import ConnectionPool, Target
from vela.aio.connections.settings import ConnectionSettings
from vela.aio.connections.tls import TlsOptions
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.options import ConsumerEvents, ConsumerOptions, MessageListener
from vela.aio.consumers.subscribing import subscribe
from vela.aio.daemon_thread import ListenerThreads
from vela.aio.own_loop import require_loop
from vela.aio.producers.opening import encryption_of, open_producer
from vela.aio.producers.producer import Producer
from vela.aio.readers.reader import Reader, open_reader, reader_subscription
from vela.aio.readers.table_view import TableView
from vela.aio.statistics_log import StatisticsLog
from vela.aio.timers import LoopTimers, Timers
from vela.authentication import Authentication, AuthenticationDisabled
from vela.core.acks.negative_acks import NegativeAckTimer
from vela.core.argument_checks import require_kind, require_number, require_text, require_whole
from vela.core.backoff import Backoff
from vela.core.flow.memory_limit import MemoryLimit
from vela.core.producing.options import MessageRouter, ProducerOptions
from vela.core.service_url import parse_service_url
from vela.core.topic_name import full_name, partition_name
from vela.errors import AlreadyClosed
from vela.loggers import ConsoleLogger, FileLogger, logger_of
from vela.message import MessageId
from vela.options import (
    BatchingType,
    CompressionType,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerType,
    HashingScheme,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from vela.schema.primitive import BytesSchema
from vela.version import __version__
from vela.wire.binary import replies
from vela.wire.binary.enums import TopicsMode
from vela.wire.binary.schema import Schema as WireSchema

if TYPE_CHECKING:
    from vela.encryption.key_reader import AbstractCryptoKeyReader
    from vela.schema.base import Schema
    from vela.wire.redelivery_backoff import RedeliveryBackoff

__all__ = ["Client"]


class Client:
    """A client of one Vela (or Pulsar) installation.

    Use the client, and everything created with it, on one event loop. On another loop, calls that wait raise
    InvalidConfiguration. Arguments up to `tls_certificate_file_path` are those of Apache's Python client, with its
    defaults; `io_threads` and `log_conf_file_path` have no effect here. The client connects when it first needs to.
    """

    def __init__(
        self,
        service_url: str,
        authentication: Authentication | None = None,
        operation_timeout_seconds: float = 30,
        io_threads: int = 1,
        message_listener_threads: int = 1,
        concurrent_lookup_requests: int = 50000,
        log_conf_file_path: str | None = None,
        stats_interval_in_seconds: int = 600,
        use_tls: bool = False,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = False,
        logger: logging.Logger | ConsoleLogger | FileLogger | None = None,
        connection_timeout_ms: int = 10000,
        listener_name: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        *,
        connections_per_broker: int = 1,
        connection_max_idle_seconds: float = 60,
        tcp_no_delay: bool = True,
        keep_alive_interval_seconds: float = 30,
        initial_backoff_ms: float = 100,
        max_backoff_ms: float = 60_000,
        memory_limit_bytes: int = 0,
        max_uncompressed_bytes: int = 256 << 20,
    ) -> None:
        """Raises InvalidUrl and InvalidConfiguration.

        operation_timeout_seconds: for opening producers and consumers, and for each request.
        connection_timeout_ms: for the TCP, TLS, WebSocket and protocol handshakes together.
        message_listener_threads: threads for listeners that are plain functions; each listener stays on one thread.
        concurrent_lookup_requests: limit for one connection; above it, the client tries a lookup again until the
            operation timeout.
        connections_per_broker: 0 = a separate connection for each consumer and producer.
        connection_max_idle_seconds: an unused connection is closed after this time.
        keep_alive_interval_seconds: time between pings; after two intervals without any data the client reconnects.
        initial_backoff_ms, max_backoff_ms: the first and the longest pause between attempts to reconnect.
        stats_interval_in_seconds: how often each consumer and producer logs a line of statistics, 0 = never.
        memory_limit_bytes: limit for the payloads that wait in all consumers' queues, 0 = no limit. At the limit, a
            consumer with an empty queue asks for one message at a time, and other consumers ask for none. Messages that
            they have asked for earlier still arrive.
        max_uncompressed_bytes: limit for the decompressed size of a message or batch. A larger one is discarded without
            being decompressed, with the reason UncompressedSizeCorruption. Vela's broker never accepts one above the
            default from a producer.
        """
        for name, time in {
            "operation_timeout_seconds": operation_timeout_seconds,
            "connection_timeout_ms": connection_timeout_ms,
            "connection_max_idle_seconds": connection_max_idle_seconds,
            "keep_alive_interval_seconds": keep_alive_interval_seconds,
            "initial_backoff_ms": initial_backoff_ms,
            "max_backoff_ms": max_backoff_ms,
        }.items():
            require_number(name, time, least=None)
        require_number("stats_interval_in_seconds", stats_interval_in_seconds)
        require_whole("io_threads", io_threads, least=1)
        require_text("log_conf_file_path", log_conf_file_path)
        require_whole("message_listener_threads", message_listener_threads, least=1)
        require_whole("concurrent_lookup_requests", concurrent_lookup_requests, least=1)
        require_whole("max_uncompressed_bytes", max_uncompressed_bytes, least=1)
        require_whole("memory_limit_bytes", memory_limit_bytes)
        require_whole("connections_per_broker", connections_per_broker)
        require_text("listener_name", listener_name)
        self._service_url = parse_service_url(service_url, use_tls=use_tls)
        require_kind("authentication", authentication, Authentication)
        require_kind("logger", logger, logging.Logger, ConsoleLogger, FileLogger)
        authentication = authentication or AuthenticationDisabled()
        certificate = authentication.tls_certificate_files() or (
            tls_certificate_file_path,
            tls_private_key_file_path,
        )
        tls = TlsOptions(
            trust_certs_file_path=tls_trust_certs_file_path,
            allow_insecure_connection=tls_allow_insecure_connection,
            validate_hostname=tls_validate_hostname,
            certificate_file_path=certificate[0],
            private_key_file_path=certificate[1],
        )
        self.settings = ConnectionSettings(
            authentication=authentication,
            client_version=f"Vela-Python-v{__version__}",
            tls=tls.context() if self._service_url.addresses[0].tls else None,
            tcp_no_delay=tcp_no_delay,
            connection_timeout_s=connection_timeout_ms / 1000,
            operation_timeout_s=operation_timeout_seconds,
            keep_alive_interval_s=keep_alive_interval_seconds,
            connections_per_broker=connections_per_broker,
            connection_max_idle_s=connection_max_idle_seconds,
            concurrent_lookup_requests=concurrent_lookup_requests,
            listener_name=listener_name,
            initial_backoff_ms=initial_backoff_ms,
            max_backoff_ms=max_backoff_ms,
        )
        """Settings of the client's connections."""
        self.logger = logger_of(logger)
        """The logger for statistics."""
        self.memory = MemoryLimit(memory_limit_bytes)
        """The limit for payloads in its consumers' queues."""
        self.max_uncompressed_bytes = max_uncompressed_bytes
        """The limit for decompressed messages and batches."""
        self.pool = ConnectionPool(self.settings)
        """The client's connections."""
        self.make_timers: Callable[[], Timers] = LoopTimers
        """Makes each consumer's timers, for acks, deadlines and chunks."""
        self.listener_threads = ListenerThreads(message_listener_threads)
        """Threads for listeners that are not coroutine functions."""
        self._lookups = LookupService(self._service_url, self.pool, self.settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consumer_ids = itertools.count()
        self._producer_ids = itertools.count()
        self._made: dict[Closes, None] = {}  # what `close` closes, in this order
        self._statistics = StatisticsLog(lambda: tuple(self._made), self.logger, stats_interval_in_seconds)
        self._closing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self.require_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """Return whether `close` was called."""
        return self._is_closed

    # --- for applications

    async def create_producer(
        self,
        topic: str,
        producer_name: str | None = None,
        schema: Schema[Any] | None = None,
        initial_sequence_id: int | None = None,
        send_timeout_millis: int = 30_000,
        compression_type: CompressionType = CompressionType.NONE,
        max_pending_messages: int = 1000,
        max_pending_messages_across_partitions: int = 50_000,
        block_if_queue_full: bool = False,
        batching_enabled: bool = False,
        batching_max_messages: int = 1000,
        batching_max_allowed_size_in_bytes: int = 128 * 1024,
        batching_max_publish_delay_ms: float = 10,
        chunking_enabled: bool = False,
        message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution,
        lazy_start_partitioned_producers: bool = False,
        properties: Mapping[str, str] | None = None,
        batching_type: BatchingType = BatchingType.Default,
        encryption_key: str | Sequence[str] | None = None,
        crypto_key_reader: AbstractCryptoKeyReader | None = None,
        access_mode: ProducerAccessMode = ProducerAccessMode.Shared,
        message_router: MessageRouter | None = None,
        *,
        hashing_scheme: HashingScheme = HashingScheme.BoostHash,
        partitions_update_interval_seconds: float = 60,
        initial_subscription_name: str | None = None,
    ) -> Producer:
        """Create a producer and connect it. Arguments up to `message_router` are those of Apache's Python client.

        producer_name: unique on its topic; None = the broker chooses one. Deduplication uses it.
        initial_sequence_id: the first message gets the next number; None or -1 = continue after the last message
            stored under this name.
        send_timeout_millis: a message without a receipt after this time fails with Timeout; 0 = never.
        compression_type: of payloads; a batch is compressed as a whole.
        max_pending_messages: limit for messages without a receipt, 0 = no limit; a chunked message counts once.
        max_pending_messages_across_partitions: divided evenly among the partitions.
        block_if_queue_full: beyond these limits, messages wait instead of failing with ProducerQueueIsFull.
        batching_*: a batch is sent when it has this many messages or bytes, or this long after its first message.
        chunking_enabled: cut messages that are too large for the broker; not together with batching.
        message_routing_mode: how to choose a partition for messages without a key.
        message_router: a function that chooses a partition for every message, from 0 to partitions - 1.
        lazy_start_partitioned_producers: connect to a partition when the first message goes there.
        encryption_key, crypto_key_reader: encrypt payloads for the owner of each key. Give both or neither.
        access_mode: see `ProducerAccessMode`. With WaitForExclusive, this call waits until the topic is free.
        hashing_scheme: maps keys to partitions. Apache's C++ and Python clients have the same default; its Java and Go
            clients use JavaStringHash.
        partitions_update_interval_seconds: how often to look for new partitions, 0 = never.
        initial_subscription_name: a subscription that is created if it is missing, so that no message is lost.

        Raises InvalidConfiguration, InvalidTopicName, TopicNotFound, TopicTerminated, ProducerBusy, ProducerFenced,
        IncompatibleSchema, CryptoError, AuthorizationError, the two ProducerBlockedQuotaExceeded…, and Timeout after
        the operation timeout. If the call is cancelled, no producer is left open.
        """
        self.require_open()
        return await open_producer(
            self,
            full_name(topic),
            ProducerOptions(
                producer_name=producer_name or None,
                schema=schema or BytesSchema(),
                initial_sequence_id=None if initial_sequence_id == -1 else initial_sequence_id,
                send_timeout_millis=send_timeout_millis,
                compression_type=compression_type,
                max_pending_messages=max_pending_messages,
                max_pending_messages_across_partitions=max_pending_messages_across_partitions,
                block_if_queue_full=block_if_queue_full,
                batching_enabled=batching_enabled,
                batching_max_messages=batching_max_messages,
                batching_max_allowed_size_in_bytes=batching_max_allowed_size_in_bytes,
                batching_max_publish_delay_ms=batching_max_publish_delay_ms,
                chunking_enabled=chunking_enabled,
                message_routing_mode=message_routing_mode,
                lazy_start_partitioned_producers=lazy_start_partitioned_producers,
                properties=properties or {},
                batching_type=batching_type,
                encrypt=encryption_of(encryption_key, crypto_key_reader),
                access_mode=access_mode,
                message_router=message_router,
                hashing_scheme=hashing_scheme,
                partitions_update_interval_s=partitions_update_interval_seconds,
                initial_subscription_name=initial_subscription_name,
            ),
        )

    async def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions, or the topic's own name if it is not partitioned.

        Raises InvalidTopicName, Timeout and the broker's refusals.
        """
        name = full_name(topic)
        count = await self.partitions(name)
        return [partition_name(name, index) for index in range(count)] or [name]

    async def subscribe(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema[Any] | None = None,
        message_listener: MessageListener | None = None,
        receiver_queue_size: int | None = 1000,
        max_total_receiver_queue_size_across_partitions: int = 50_000,
        consumer_name: str | None = None,
        unacked_messages_timeout_ms: int | None = None,
        broker_consumer_stats_cache_time_ms: int = 30_000,
        negative_ack_redelivery_delay_ms: int = 60_000,
        is_read_compacted: bool = False,
        properties: Mapping[str, str] | None = None,
        pattern_auto_discovery_period: int = 60,
        initial_position: InitialPosition = InitialPosition.Latest,
        crypto_key_reader: AbstractCryptoKeyReader | None = None,
        replicate_subscription_state_enabled: bool = False,
        max_pending_chunked_message: int = 10,
        auto_ack_oldest_chunked_message_on_queue_full: bool = False,
        start_message_id_inclusive: bool = False,
        batch_receive_policy: ConsumerBatchReceivePolicy | None = None,
        key_shared_policy: ConsumerKeySharedPolicy | None = None,
        batch_index_ack_enabled: bool = False,
        regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy: ConsumerDeadLetterPolicy | None = None,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        *,
        enable_zero_queue_consumer: bool = False,
        auto_scaled_receiver_queue_size_enabled: bool = False,
        priority_level: int = 0,
        start_paused: bool = False,
        subscription_properties: Mapping[str, str] | None = None,
        consumer_event_listener: ConsumerEvents | None = None,
        expire_time_of_incomplete_chunked_message_ms: int = 60_000,
        ack_group_time_ms: int = 100,
        ack_group_size: int = 1000,
        ack_receipt_enabled: bool = False,
        unacked_messages_tick_ms: int = 1000,
        ack_timeout_redelivery_backoff: RedeliveryBackoff | None = None,
        negative_ack_redelivery_backoff: RedeliveryBackoff | None = None,
        negative_ack_timer: NegativeAckTimer = NegativeAckTimer.PRECISE,
        retry_enable: bool = False,
        retry_on_ack_timeout: bool = False,
        partitions_update_interval_seconds: float = 60,
    ) -> Consumer:
        """Subscribe a consumer. The broker creates the subscription if it does not exist.

        topic: a short or full name; a list of names; or a compiled regular expression for topic names of one namespace,
            which is matched again every pattern_auto_discovery_period seconds.
        consumer_type: how the consumers of the subscription share its messages.
        schema: decodes `Message.value()`, None = bytes.
        message_listener: called with consumer and message, instead of receive calls, on one of the client's listener
            threads. In vela.aio only, it can be a coroutine function, which runs on the event loop.
        receiver_queue_size: messages to fetch in advance; 0 = one message for each receive; None = 1000.
        consumer_name: None = five random hexadecimal digits.
        unacked_messages_timeout_ms: a message not acknowledged after this time is delivered again; at least 1000,
            None or 0 = never.
        properties: of the consumer; the broker shows them.
        initial_position: where a new subscription begins.
        start_message_id_inclusive: a seek goes to the message itself, not to the one after it.
        max_pending_chunked_message: limit for messages that wait for chunks, 0 = no limit. Beyond the limit, the oldest
            is acknowledged if auto_ack_oldest_chunked_message_on_queue_full is set, else delivered again.
        batch_receive_policy: for `batch_receive`; the default is 10 MiB or 100 ms.
        batch_index_ack_enabled: tell the broker which messages of a batch are acknowledged.
        crypto_failure_action: what to do with messages that cannot be decrypted.
        dead_letter_policy: copy messages that fail too often to another topic and acknowledge them. Only on Shared and
            KeyShared, which count redeliveries.
        broker_consumer_stats_cache_time_ms has no effect.

        Beyond Apache's Python client:
        enable_zero_queue_consumer: the same as receiver_queue_size=0, whatever that argument is.
        auto_scaled_receiver_queue_size_enabled: the queue begins at 1 and doubles each time it runs empty, up to
            receiver_queue_size.
        priority_level: consumers at 0 get messages first.
        start_paused: begin as if `pause()` was called.
        subscription_properties: stored with the subscription if this call creates it.
        consumer_event_listener: on Failover, called when this consumer becomes active or inactive.
        expire_time_of_incomplete_chunked_message_ms: chunks that wait this long for others are acknowledged, 0 = never.
        ack_group_time_ms, ack_group_size: send acknowledgements when either is reached; time 0 = send each at once.
        ack_receipt_enabled: an acknowledgement is done only when the broker has stored it.
        unacked_messages_tick_ms: precision of the ack timeout, at least 100.
        negative_ack_redelivery_backoff: replaces negative_ack_redelivery_delay_ms.
        ack_timeout_redelivery_backoff: is added to unacked_messages_timeout_ms.
        negative_ack_timer: when negatively acknowledged messages are delivered again; releases of Pulsar differ.
        retry_enable: allow `reconsume_later`, which sends a message to a retry topic that the consumer also reads.
        retry_on_ack_timeout: also send messages that are not acknowledged in time to the retry topic.
        partitions_update_interval_seconds: how often to look for new partitions, 0 = never.

        Raises InvalidConfiguration, InvalidTopicName, Timeout after the operation timeout, and the broker's refusals:
        ConsumerBusy, TopicNotFound, AuthorizationError, IncompatibleSchema … If the call is cancelled, no consumer
        stays subscribed.
        """
        self.require_open()
        require_whole("broker_consumer_stats_cache_time_ms", broker_consumer_stats_cache_time_ms)
        options = ConsumerOptions(
            subscription_name=subscription_name,
            consumer_type=consumer_type,
            schema=schema,
            message_listener=message_listener,
            receiver_queue_size=receiver_queue_size,
            max_total_receiver_queue_size_across_partitions=max_total_receiver_queue_size_across_partitions,
            consumer_name=consumer_name,
            unacked_messages_timeout_ms=unacked_messages_timeout_ms,
            negative_ack_redelivery_delay_ms=negative_ack_redelivery_delay_ms,
            is_read_compacted=is_read_compacted,
            properties=properties or {},
            pattern_auto_discovery_period=pattern_auto_discovery_period,
            initial_position=initial_position,
            crypto_key_reader=crypto_key_reader,
            replicate_subscription_state_enabled=replicate_subscription_state_enabled,
            max_pending_chunked_message=max_pending_chunked_message,
            auto_ack_oldest_chunked_message_on_queue_full=auto_ack_oldest_chunked_message_on_queue_full,
            start_message_id_inclusive=start_message_id_inclusive,
            batch_receive_policy=batch_receive_policy or ConsumerBatchReceivePolicy(),
            key_shared_policy=key_shared_policy,
            batch_index_ack_enabled=batch_index_ack_enabled,
            regex_subscription_mode=regex_subscription_mode,
            dead_letter_policy=dead_letter_policy,
            crypto_failure_action=crypto_failure_action,
            enable_zero_queue_consumer=enable_zero_queue_consumer,
            auto_scaled_receiver_queue_size_enabled=auto_scaled_receiver_queue_size_enabled,
            priority_level=priority_level,
            start_paused=start_paused,
            subscription_properties=subscription_properties or {},
            consumer_event_listener=consumer_event_listener,
            expire_time_of_incomplete_chunked_message_ms=expire_time_of_incomplete_chunked_message_ms,
            ack_group_time_ms=ack_group_time_ms,
            ack_group_size=ack_group_size,
            ack_receipt_enabled=ack_receipt_enabled,
            unacked_messages_tick_ms=unacked_messages_tick_ms,
            ack_timeout_redelivery_backoff=ack_timeout_redelivery_backoff,
            negative_ack_redelivery_backoff=negative_ack_redelivery_backoff,
            negative_ack_timer=negative_ack_timer,
            retry_enable=retry_enable,
            retry_on_ack_timeout=retry_on_ack_timeout,
            partitions_update_interval_s=partitions_update_interval_seconds,
        )
        return await subscribe(self, topic, options)

    async def create_reader(
        self,
        topic: str,
        start_message_id: MessageId,
        schema: Schema[Any] | None = None,
        reader_listener: MessageListener | None = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: AbstractCryptoKeyReader | None = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        *,
        subscription_name: str | None = None,
    ) -> Reader:
        """Create a reader of a topic, or of all its partitions.

        start_message_id: `MessageId.earliest`, `MessageId.latest`, or a message id. The reader begins after that
            message, or with start_message_id_inclusive at that message. A partitioned topic accepts only earliest and
            latest.
        reader_listener: called instead of read calls, like message_listener of `subscribe`, with the consumer behind
            the reader and a message; vela.Client passes the reader itself.
        reader_name: a name for the reader, which the broker shows.
        subscription_role_prefix: how the name of the reader's subscription begins.
        subscription_name: the whole name of the reader's subscription.

        The other arguments, and the errors, are those of `subscribe`.
        """
        self.require_open()
        require_text("reader_name", reader_name)
        require_text("subscription_role_prefix", subscription_role_prefix)
        return await open_reader(
            self,
            full_name(topic),
            reader_listener,
            ConsumerOptions(
                subscription_name=subscription_name or reader_subscription(subscription_role_prefix),
                consumer_name=reader_name,
                schema=schema,
                receiver_queue_size=receiver_queue_size,
                is_read_compacted=is_read_compacted,
                crypto_key_reader=crypto_key_reader,
                crypto_failure_action=crypto_failure_action,
                start_message_id=start_message_id,
                start_message_id_inclusive=start_message_id_inclusive,
                durable=False,
            ),
        )

    async def create_table_view(
        self, topic: str, subscription_name: str | None = None, schema: Schema[Any] | None = None
    ) -> TableView:
        """Create a table with the newest value of each key. The table is complete when this returns, and stays current.

        subscription_name: for the reader behind the table. Raises the errors of `create_reader`.
        """

        async def open_reader() -> Reader:
            return await self.create_reader(
                topic,
                MessageId.earliest,
                schema,
                is_read_compacted=True,
                subscription_name=subscription_name,
            )

        settings = self.settings
        backoff = Backoff(initial_ms=settings.initial_backoff_ms, max_ms=settings.max_backoff_ms)
        view = TableView(await open_reader(), backoff, open_reader=open_reader)
        try:
            await view.start()
        except BaseException:
            await view.close()
            raise
        return view

    async def get_schema(self, topic: str, version: bytes | None = None) -> replies.SchemaFound:
        """Return a topic's schema: the latest one, or the one with `version`.

        Raises TopicNotFound if the topic has no such schema.
        """
        self.require_open()
        require_kind("version", version, bytes)
        return await self._lookups.schema(full_name(topic), version=version)

    async def close(self) -> None:
        """Close all producers, consumers and connections. After that, all calls raise AlreadyClosed.

        Safe to repeat, also while an earlier call waits. Cancelling ends only the wait. If a producer or consumer fails
        to close, the client logs the error and closes the others. Raises InvalidConfiguration on another event loop.
        """
        self._require_own_loop()
        if self._closing is None:
            self._is_closed = True
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._statistics.close()
        made, self._made = list(self._made), {}
        for outcome in await asyncio.gather(*(each.close() for each in made), return_exceptions=True):
            if isinstance(outcome, Exception):
                self.logger.warning("closing the client: one of its parts failed to close: %r", outcome)
        await self.pool.close()
        self.listener_threads.stop()

    def shutdown(self) -> None:
        """Drop all connections without waiting. Unanswered requests fail. You may call `close` afterwards.

        Raises InvalidConfiguration on another event loop.
        """
        self._require_own_loop()
        self._is_closed = True
        self._statistics.close()
        self.pool.drop()
        self.listener_threads.stop()

    # --- for its consumers, producers and readers

    async def connection_for(self, topic: str) -> Connection:
        """Return a connection to the broker that serves a topic (full name). Tries once. `release` it after use."""
        self.require_open()
        target: Target = await self._lookups.locate(topic)
        return await self.pool.get(target)

    def release(self, connection: Connection) -> None:
        """Give a connection back to the pool, which closes it when nothing uses it for a while."""
        self.pool.release(connection)

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """Return how many partitions a topic (full name) has, 0 = none. `create` lets the broker create the topic."""
        self.require_open()
        return await self._lookups.partitions(topic, create=create)

    async def get_topics_of_namespace(
        self,
        namespace: str,
        *,
        mode: TopicsMode = TopicsMode.PERSISTENT,
        pattern: str | None = None,
        known_hash: str | None = None,
    ) -> replies.TopicsOfNamespace:
        """Return the topics of "tenant/namespace", each partition by its own name.

        The broker may ignore `pattern`, so filter the result again. If the hash of the list is still `known_hash`, the
        broker sends no names.
        """
        self.require_open()
        return await self._lookups.topics_of_namespace(
            namespace, mode=mode, pattern=pattern, known_hash=known_hash
        )

    async def get_or_create_schema(self, topic: str, schema: WireSchema) -> bytes:
        """Return the version of `schema` on a topic, and store it if it is new. Raises IncompatibleSchema."""
        self.require_open()
        return await self._lookups.schema_version(full_name(topic), schema)

    def new_consumer_id(self) -> int:
        """Return a number that no other consumer of this client has."""
        return next(self._consumer_ids)

    def new_producer_id(self) -> int:
        """Return a number that no other producer of this client has."""
        return next(self._producer_ids)

    def keep(self, made: Closes) -> None:
        """Remember `made`, so that `close` closes it."""
        self._made[made] = None
        self._statistics.start()

    def forget(self, made: Closes) -> None:
        """Forget `made`, so that `close` does not close it."""
        self._made.pop(made, None)

    def _require_own_loop(self) -> None:
        if self._loop is not None and not self._is_closed:
            require_loop(self._loop)

    def require_open(self) -> None:
        """Raise AlreadyClosed after `close`, and InvalidConfiguration on any event loop but the first."""
        if self._is_closed:
            raise AlreadyClosed("the client is closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        require_loop(self._loop)
