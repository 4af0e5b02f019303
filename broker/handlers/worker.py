"""Run handlers, which are functions with the decorator `@handler`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from django.db import close_old_connections, transaction

from broker.conf import SettingInvalid
from broker.core.subscription.types import SubscriptionType
from broker.handlers.message import Message
from broker.handlers.registry import Handler
from broker.handlers.threads import CallThreads
from broker.storage.supervised import pause_after_faults_s
from vela.aio import Client, Consumer, PulsarException
from vela.authentication import token_authentication
from vela.options import ConsumerDeadLetterPolicy, ConsumerType, InitialPosition

if TYPE_CHECKING:
    from pathlib import Path

    from broker.conf import BrokerSettings
    from vela.message import Message as ReceivedMessage

__all__ = ["client_of", "run_handlers"]

logger = logging.getLogger(__name__)

_TYPES: Final = {
    SubscriptionType.EXCLUSIVE: ConsumerType.Exclusive,
    SubscriptionType.SHARED: ConsumerType.Shared,
    SubscriptionType.FAILOVER: ConsumerType.Failover,
    SubscriptionType.KEY_SHARED: ConsumerType.KeyShared,
}
_LONGEST_PAUSE_MS: Final = 10_000
_WEBSOCKET_SCHEMES: Final = {"http": "ws", "https": "wss"}


def client_of(settings: BrokerSettings) -> Client:
    """Return a client of the broker at VELA_URL. Raises SettingInvalid if a setting cannot be used."""
    scheme, separator, rest = settings.url.partition("://")
    try:
        return Client(
            f"{_WEBSOCKET_SCHEMES.get(scheme, scheme)}{separator}{rest}",
            authentication=token_authentication(settings.client_token, settings.client_token_file),
            tls_validate_hostname=True,
            tls_trust_certs_file_path=_text(settings.client_trust_file),
            tls_certificate_file_path=_text(settings.client_certificate_file),
            tls_private_key_file_path=_text(settings.client_key_file),
            max_backoff_ms=_LONGEST_PAUSE_MS,
            stats_interval_in_seconds=0,
        )
    except PulsarException as error:
        raise SettingInvalid(
            "VELA_URL, VELA_TOKEN or VELA_TOKEN_FILE, and the files in VELA_CLIENT_TRUST_FILE,"
            f" VELA_CLIENT_CERTIFICATE_FILE and VELA_CLIENT_KEY_FILE cannot be used: {error}"
        ) from None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


async def run_handlers(
    handlers: Sequence[Handler], client: Client, *, stopping: asyncio.Event, stop_timeout_s: float
) -> None:
    """Run the handlers until `stopping` is set. Unfinished calls then have `stop_timeout_s` seconds to end."""
    threads = CallThreads(sum(each.concurrency for each in handlers if not each.is_async), "handler")
    runners = [_Runner(each, client, threads) for each in handlers]
    tasks = [asyncio.create_task(runner.run(), name=runner.handler.name) for runner in runners]
    await stopping.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(runner.finish(stop_timeout_s) for runner in runners))
    await client.close()
    threads.end()


class _Runner:
    def __init__(self, handler: Handler, client: Client, threads: CallThreads) -> None:
        self.handler = handler
        self._client = client
        self._threads = threads
        self._free = asyncio.Semaphore(handler.concurrency)
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        faults = 0
        while True:
            try:
                consumer = await self._subscribe()
                logger.info("%s: consuming %s", self.handler.name, self.handler.topic)
                faults = 0
                await self._consume(consumer)
            except PulsarException as error:
                faults += 1
                logger.warning(
                    "%s: not consuming %s, subscribing again soon: %s",
                    self.handler.name,
                    self.handler.topic,
                    error,
                )
            except Exception:
                faults += 1
                logger.exception(
                    "%s: not consuming %s, subscribing again soon", self.handler.name, self.handler.topic
                )
            await asyncio.sleep(pause_after_faults_s(faults))

    async def finish(self, timeout_s: float) -> None:
        if self._calls:
            _, unfinished = await asyncio.wait(self._calls, timeout=timeout_s)
            if unfinished:
                logger.warning(
                    "%s: calls that had not ended in time: %s; their messages will be delivered again",
                    self.handler.name,
                    len(unfinished),
                )

    async def _subscribe(self) -> Consumer:
        handler = self.handler
        dead_letter_policy = None
        if handler.max_redeliveries:
            dead_letter_policy = ConsumerDeadLetterPolicy(handler.max_redeliveries, handler.dead_letter_topic)
        return await self._client.subscribe(
            handler.topic.full,
            handler.subscription,
            _TYPES[handler.type],
            receiver_queue_size=handler.concurrency,
            consumer_name=handler.name,
            unacked_messages_timeout_ms=handler.ack_timeout_ms or None,
            negative_ack_redelivery_delay_ms=handler.retry_delay_ms,
            initial_position=InitialPosition.Earliest if handler.from_earliest else InitialPosition.Latest,
            dead_letter_policy=dead_letter_policy,
            batch_index_ack_enabled=True,
            # Immediate acks leave fewer calls to repeat if the worker is killed.
            ack_group_time_ms=0,
        )

    async def _consume(self, consumer: Consumer) -> None:
        while True:
            await self._free.acquire()
            try:
                message = await consumer.receive()
            except BaseException:
                self._free.release()
                raise
            call = asyncio.create_task(self._handle(consumer, message))
            self._calls.add(call)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._free.release()

    async def _handle(self, consumer: Consumer, received: ReceivedMessage) -> None:
        try:
            if await self._returns(received):
                await consumer.acknowledge(received)
            else:
                await consumer.negative_acknowledge(received)
        except PulsarException as error:
            logger.warning(
                "%s: message %s will be delivered again, because the result of its call did not reach the broker: %s",
                self.handler.name,
                received.message_id(),
                error,
            )

    async def _returns(self, received: ReceivedMessage) -> bool:
        handler = self.handler
        try:
            message = Message.from_received(handler.topic.full, received)
            if handler.is_async:
                await cast(Awaitable[object], handler.function(message))
            else:
                await self._threads.run(partial(_call, handler, message))
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            # The handler's function can raise CancelledError although nobody cancelled this task.
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            logger.exception(
                "%s: the call failed, and message %s will be delivered again",
                handler.name,
                received.message_id(),
            )
            return False
        return True


def _call(handler: Handler, message: Message) -> None:
    close_old_connections()
    try:
        if handler.atomic:
            with transaction.atomic():
                handler.function(message)
        else:
            handler.function(message)
    finally:
        close_old_connections()
