"""`vela.aio.Client`: connections, look-ups, and the life of everything made with it."""

# Over 400 lines: signatures with their arguments explained; the work is done elsewhere.

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
from vela.core.producing.memory_limit import MemoryLimit
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
    """The way to one Vela (or Pulsar) installation. Use it, and all that it makes, on one event loop: on another one,
    calls that wait raise InvalidConfiguration.

    Arguments up to `tls_certificate_file_path` are those of Apache's Python client, with its defaults;
    `io_threads` and `log_conf_file_path` are taken and mean nothing here.
    Nothing is connected before it is needed.
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

        operation_timeout_seconds: for opening producers and consumers and for each request.
        connection_timeout_ms: for TCP, TLS, WebSocket and protocol handshake together.
        message_listener_threads: how many listeners, of consumers, run at a time; each stays on its thread.
        concurrent_lookup_requests: on one connection; one more raises TooManyLookupRequestException.
        connections_per_broker: 0 = each consumer and producer has a connection to itself.
        connection_max_idle_seconds: after which an unused connection is closed.
        keep_alive_interval_seconds: between pings; after two of them without a byte the connection is given up.
        initial_backoff_ms, max_backoff_ms: pauses between attempts to connect again.
        stats_interval_in_seconds: how often a line is logged for each consumer and producer, 0 = never.
        memory_limit_bytes: of payloads that wait in the queues of all consumers, 0 = no limit. At the limit no more is
        asked for, but for one message at a time of a consumer whose queue is empty; what was asked for still comes.
        max_uncompressed_bytes: of a compressed message or batch; one that says it is larger is thrown away, with the
        reason UncompressedSizeCorruption, without being unpacked. No Vela takes larger ones from producers.
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
        """How it connects."""
        self.logger = logger_of(logger)
        """Where statistics are logged."""
        self.memory = MemoryLimit(memory_limit_bytes)
        """What its consumers hold."""
        self.max_uncompressed_bytes = max_uncompressed_bytes
        """What may be unpacked."""
        self.pool = ConnectionPool(self.settings)
        """Its connections."""
        self.make_timers: Callable[[], Timers] = LoopTimers
        """The clock of each consumer: of its acks, its deadlines, its chunks."""
        self.listener_threads = ListenerThreads(message_listener_threads)
        """For listeners that are no coroutine functions."""
        self._lookups = LookupService(self._service_url, self.pool, self.settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consumer_ids = itertools.count()
        self._producer_ids = itertools.count()
        self._made: dict[Closes, None] = {}  # in order, what `close` closes
        self._statistics = StatisticsLog(lambda: tuple(self._made), self.logger, stats_interval_in_seconds)
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
        """`close` was called."""
        return self._is_closed

    # --- what is for users

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
        """A producer, connected and ready. Arguments up to `message_router` are those of Apache's Python client.

        producer_name: unique on its topic; None = the broker makes one. Deduplication goes by it.
        initial_sequence_id: the first message gets the number after it; None or -1 = after the last one stored by this
            name.
        send_timeout_millis: a message without a receipt for so long fails with Timeout; 0 = never.
        compression_type: of payloads, a batch as a whole.
        max_pending_messages: taken and not answered yet, 0 = no limit; a message in chunks counts once.
        max_pending_messages_across_partitions: shared out evenly among the partitions.
        block_if_queue_full: beyond these limits messages wait in line instead of failing with ProducerQueueIsFull.
        batching_*: a batch leaves when it holds so many messages or bytes, or so long after its first message.
        chunking_enabled: messages larger than the broker takes are cut; not together with batching.
        message_routing_mode: for messages without a key; message_router: decides for all, from 0 to partitions - 1.
        lazy_start_partitioned_producers: a partition is connected to when the first message goes there.
        encryption_key, crypto_key_reader: payloads are encrypted for each of these keys' owners; needs both.
        access_mode: see `ProducerAccessMode`; WaitForExclusive waits here until the topic is free.
        hashing_scheme: from keys to partitions; the default is that of Apache's C++ and Python clients,
            JavaStringHash that of its Java and Go clients.
        partitions_update_interval_seconds: how often new partitions are looked for, 0 = never.
        initial_subscription_name: a subscription made together with the topic, so that nothing on it is lost.

        Raises InvalidConfiguration, InvalidTopicName, TopicNotFound, TopicTerminated, ProducerBusy, ProducerFenced,
        IncompatibleSchema, CryptoError, AuthorizationError, the two ProducerBlockedQuotaExceeded…, Timeout after the
        operation timeout. Cancelling it leaves nothing behind.
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
        """The names of a topic's partitions; of a topic without partitions, its own.

        Raises InvalidTopicName, Timeout and what the broker refuses with.
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
        """A consumer on a topic's subscription, which is made when it does not exist.

        topic: a name, short or in full; a list of names; a compiled regular expression for the names of one
        namespace's topics, looked at every pattern_auto_discovery_period seconds. consumer_type: how the consumers of
        the subscription share its messages. schema: what decodes `Message.value()`, None = bytes. message_listener:
        called with consumer and message, in place of receiving by hand, on a thread of the consumer's own; by vela.aio,
        and by it alone, a coroutine function on the event loop. receiver_queue_size: messages asked for before they are
        wanted; 0 = one for each receive; None = 1000. consumer_name: None = five random hexadecimal digits.
        unacked_messages_timeout_ms: what is taken and not acknowledged within it comes again; None or 0 = never, else
        1000 or more. properties: of the consumer, shown by the broker. initial_position: where a new subscription
        begins. start_message_id_inclusive: a seek goes to the message itself, not to the one after it.
        max_pending_chunked_message: messages that wait for chunks, 0 = no limit; auto_ack_oldest_…: the oldest beyond
        it is acknowledged, else delivered again.
        batch_receive_policy: of `batch_receive`, by default 10 MiB or 100 ms. batch_index_ack_enabled: messages of a
        batch are acknowledged one by one at the broker too. crypto_failure_action: what becomes of what cannot be
        decrypted. dead_letter_policy: what failed so often is copied to a topic of its own and acknowledged; on Shared
        and KeyShared, where redeliveries are counted. broker_consumer_stats_cache_time_ms is taken and means nothing.

        Beyond Apache's Python client: enable_zero_queue_consumer: as receiver_queue_size=0, whatever that says.
        auto_scaled_receiver_queue_size_enabled: the queue begins at 1 and doubles, up to receiver_queue_size, as it
        runs dry. priority_level: 0 is served first. start_paused: as if `pause()` was called. subscription_properties:
        kept with a subscription that this makes. consumer_event_listener: on Failover, is told which consumer
        receives. expire_time_…: chunks that wait so long for the others are acknowledged, 0 = never.
        ack_group_time_ms, ack_group_size: acknowledgements are sent when either is reached, time 0 = each at once.
        ack_receipt_enabled: one is done when the broker has stored it. unacked_messages_tick_ms: how finely
        the ack timeout is kept, 100 or more. negative_ack_redelivery_backoff takes the place of the delay,
        ack_timeout_redelivery_backoff follows the timeout. negative_ack_timer: when negatively acknowledged messages
        come, as different releases of Pulsar have it. retry_enable: messages can be put off (`reconsume_later`), to a
        topic that is consumed as well. retry_on_ack_timeout: what is not acknowledged in time is put off, too.
        partitions_update_interval_seconds: how often new partitions are looked for, 0 = never.

        Raises InvalidConfiguration, InvalidTopicName, Timeout after the operation timeout, and what the broker
        refuses with: ConsumerBusy, TopicNotFound, AuthorizationError, IncompatibleSchema … Cancelled, it leaves no
        subscribed consumer behind. Mirrors semantics 3.1 and section 4.
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
        """A reader of a topic, of all its partitions if it has some.

        start_message_id: `MessageId.earliest`, `MessageId.latest` or one message, after which it begins; with
        start_message_id_inclusive it begins with that message itself. A topic with partitions takes only the first two.
        reader_listener: called in place of reading by hand, as message_listener of `subscribe`, with a message and the
        consumer behind the reader; by vela.Client with the reader itself.
        reader_name: shown by the broker. subscription_role_prefix: what the name of its subscription begins with;
        subscription_name: that name.
        Otherwise as `subscribe`. Raises as it does, and TopicNotFound.
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
        """A table of the topic's newest value for each key, which is whole when this returns and then follows it.

        subscription_name: of the reader behind it. Raises as `create_reader`.
        """
        reader = await self.create_reader(
            topic,
            MessageId.earliest,
            schema,
            is_read_compacted=True,
            subscription_name=subscription_name,
        )
        view = TableView(reader)
        try:
            await view.start()
        except BaseException:
            await view.close()
            raise
        return view

    async def get_schema(self, topic: str, version: bytes | None = None) -> replies.SchemaFound:
        """A topic's schema: the latest, or that of `version`. Raises TopicNotFound when it has none."""
        self.require_open()
        require_kind("version", version, bytes)
        return await self._lookups.schema(full_name(topic), version=version)

    async def close(self) -> None:
        """Closes all producers, consumers and connections; afterwards all calls raise AlreadyClosed.

        May be called twice. An error in closing one of them is logged, and the others are closed all the same.
        Raises InvalidConfiguration on another event loop.
        """
        self._require_own_loop()
        self._is_closed = True
        self._statistics.close()
        made, self._made = list(self._made), {}
        for outcome in await asyncio.gather(*(each.close() for each in made), return_exceptions=True):
            if isinstance(outcome, Exception):
                self.logger.warning("at the close of the client: %r", outcome)
        await self.pool.close()
        self.listener_threads.stop()

    def shutdown(self) -> None:
        """Drops all connections and waits for nothing: what was not answered fails. `close` may follow.

        Raises InvalidConfiguration on another event loop.
        """
        self._require_own_loop()
        self._is_closed = True
        self._statistics.close()
        self.pool.drop()
        self.listener_threads.stop()

    # --- what is for its consumers, producers and readers

    async def connection_for(self, topic: str) -> Connection:
        """A connection to who serves a topic (its full name); one attempt. `release` it when it is not needed."""
        self.require_open()
        target: Target = await self._lookups.locate(topic)
        return await self.pool.get(target)

    def release(self, connection: Connection) -> None:
        """See `ConnectionPool.release`."""
        self.pool.release(connection)

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """How many partitions a topic (its full name) has, 0 = not partitioned; `create` lets the broker make it."""
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
        """The topics of "tenant/namespace", partitions one by one.

        `pattern` is a wish, filter them again; with the `known_hash` of a list that has not changed none are sent.
        """
        self.require_open()
        return await self._lookups.topics_of_namespace(
            namespace, mode=mode, pattern=pattern, known_hash=known_hash
        )

    async def get_or_create_schema(self, topic: str, schema: WireSchema) -> bytes:
        """The version of a schema of a topic, which is stored when it is new. Raises IncompatibleSchema."""
        self.require_open()
        return await self._lookups.schema_version(full_name(topic), schema)

    def new_consumer_id(self) -> int:
        """A number no other consumer of this client has."""
        return next(self._consumer_ids)

    def new_producer_id(self) -> int:
        """A number no other producer of this client has."""
        return next(self._producer_ids)

    def keep(self, made: Closes) -> None:
        """`close` will close it."""
        self._made[made] = None
        self._statistics.start()

    def forget(self, made: Closes) -> None:
        """It is closed."""
        self._made.pop(made, None)

    def _require_own_loop(self) -> None:
        if self._loop is not None and not self._is_closed:
            require_loop(self._loop)

    def require_open(self) -> None:
        """Raises AlreadyClosed after `close`, InvalidConfiguration on another event loop than the first."""
        if self._is_closed:
            raise AlreadyClosed("the client is closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        require_loop(self._loop)
