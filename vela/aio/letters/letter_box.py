"""The dead-letter and retry-letter topics of one subscription, and their producers."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from vela.aio.producers.opening import open_producer
from vela.core.producing.options import ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.core.topic_name import base_name, full_name, namespace_of
from vela.errors import (
    AuthorizationError,
    IncompatibleSchema,
    InvalidTopicName,
    ProducerFenced,
    TopicNotFound,
    TopicTerminated,
    VelaError,
)
from vela.schema.base import Schema, SchemaInfo
from vela.schema.primitive import BytesSchema
from vela.wire.errors import InvalidTopicName as NameTooLong
from vela.wire.letters import (
    DEFAULT_MAX_REDELIVERIES,
    DeadLetterPolicy,
    dead_letter_topic,
    legacy_dead_letter_name,
    legacy_retry_name,
    retry_topic,
)

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.producers.producer import Producer
    from vela.options import ConsumerDeadLetterPolicy

__all__ = ["AT_ONCE", "LetterBox", "open_letter_box"]

K = TypeVar("K")
V = TypeVar("V")

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100  # limit for entries whose letters are written at the same time, to save memory
_ENDS_A_PRODUCER: Final = (IncompatibleSchema, ProducerFenced, TopicNotFound, TopicTerminated)
_Key: TypeAlias = tuple[str, bytes]
_RANDOM_BYTES: Final = 3
_RANDOM_CHARACTERS: Final = 5


class _Copied(Schema[bytes]):
    """The schema of payloads that were written by other producers and are copied unchanged."""

    def __init__(self, info: SchemaInfo) -> None:
        self._schema_info = info

    def encode(self, obj: bytes) -> bytes:
        return obj

    def decode(self, data: bytes) -> bytes:
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A topic for letters."""

    topic: str  # full name
    suffix: str  # end of the producer's name
    initial_subscription: str | None  # created if it is missing


async def open_letter_box(
    client: ClientPorts,
    topics: Sequence[str],
    *,
    subscription: str,
    given: ConsumerDeadLetterPolicy | None,
    retry: bool,
    on_ack_timeout: bool,
    schema: Schema[Any] | None,
) -> LetterBox | None:
    """Return the letter box of consumers that subscribe to `topics`; None if they write no letters.

    `given` (dead_letter_policy), `retry` (retry_enable) and `on_ack_timeout` (retry_on_ack_timeout) are arguments of
    `subscribe`. `schema` is the consumers' schema; None = bytes. With `retry`, there is one retry-letter topic and one
    dead-letter topic, named after the first topic, as in Pulsar. Raises InvalidTopicName if a given name is invalid or
    a default name is too long, and the errors of looking up the names that older clients use.
    """
    if given is None and not retry:
        return None
    policy = DeadLetterPolicy(max_redeliver_count=DEFAULT_MAX_REDELIVERIES)
    if given is not None:
        policy = DeadLetterPolicy(
            max_redeliver_count=given.max_redeliver_count,
            topic=None if given.dead_letter_topic is None else full_name(given.dead_letter_topic),
            initial_subscription=given.initial_subscription_name,
            rule=given.rule,
        )
    box = LetterBox(
        client,
        policy,
        subscription=subscription,
        on_ack_timeout=on_ack_timeout,
        schema=schema or BytesSchema(),
    )
    if retry:
        await box.resolve_retry(topics[0], None if given is None else given.retry_letter_topic)
    if policy.topic is None:
        for topic in topics[:1] if retry else topics:  # raises now, not when the first letter is written
            _default(dead_letter_topic, base_name(topic), subscription)
    return box


class LetterBox:
    """Sends the letters of all consumers that one call of `subscribe` creates. It opens producers when needed.

    Each consumer calls `open` and `close` once. The last `close` closes the producers.
    """

    def __init__(
        self,
        client: ClientPorts,
        policy: DeadLetterPolicy,
        *,
        subscription: str,
        on_ack_timeout: bool,
        schema: Schema[Any],
    ) -> None:
        self.policy = policy
        """Decides by the redelivery count when a message becomes a dead letter."""
        self.retry_topic: str | None = None
        """Full name of the retry-letter topic, which the consumers also read; None = retry letters are off."""
        self.on_ack_timeout = on_ack_timeout
        """Whether messages that were not acked in time become retry letters."""
        self.turns = asyncio.Semaphore(AT_ONCE)
        self._client = client
        self._schema = schema
        self._subscription = subscription
        # The topic after which both letter topics are named; None = each topic has its own dead-letter topic.
        self._named_after: str | None = None
        # topic → its dead-letter topic
        self._targets: dict[str, asyncio.Future[_Target]] = {}
        # letter topic and definition of the letters' schema → its producer
        self._producers: dict[_Key, asyncio.Future[Producer]] = {}
        self._refused: set[_Key] = set()  # definitions that the letter topic does not allow
        self._users = 0

    @property
    def subscription(self) -> str:
        """Return the subscription's name."""
        return self._subscription

    def without_dead_letters(self, topics: frozenset[str]) -> frozenset[str]:
        """Return topics (full names, without partitions), except those that take the dead letters of others of them."""
        return frozenset(topic for topic in topics if not self._takes_dead_letters(topic, topics))

    def _takes_dead_letters(self, topic: str, topics: frozenset[str]) -> bool:
        if self.policy.topic is not None:
            return topic == base_name(self.policy.topic)
        legacy = legacy_dead_letter_name(self._subscription)
        named_after = topic.removesuffix(f"-{legacy}")
        return (named_after != topic and named_after in topics) or topic.endswith(f"/{legacy}")

    async def resolve_retry(self, topic: str, given: str | None) -> None:
        """Choose the retry-letter topic."""
        self._named_after = base_name(topic)
        if given is not None:
            self.retry_topic = full_name(given)
        else:
            self.retry_topic = await self._choose(
                self._named_after,
                _default(retry_topic, self._named_after, self._subscription),
                legacy_retry_name(self._subscription),
            )

    async def send_retry(self, letter: Outgoing, *, topic: str, version: bytes, consumer_name: str) -> None:
        """Send a retry letter and wait until it is stored. For arguments and errors see `send_dead`."""
        assert self.retry_topic is not None
        target = _Target(topic=self.retry_topic, suffix="RETRY", initial_subscription=None)
        await self._send(target, letter, topic, version, consumer_name)

    async def send_dead(self, letter: Outgoing, *, topic: str, version: bytes, consumer_name: str) -> None:
        """Send a dead letter and wait until it is stored. Raises the producer's errors.

        `topic` and `version` are those of the message and its schema.
        """
        named_after = self._named_after or base_name(topic)
        target = await _once(self._targets, named_after, lambda: self._dead_letter_target(named_after))
        await self._send(target, letter, topic, version, consumer_name)

    async def _dead_letter_target(self, named_after: str) -> _Target:
        topic = self.policy.topic or await self._choose(
            named_after,
            _default(dead_letter_topic, named_after, self._subscription),
            legacy_dead_letter_name(self._subscription),
        )
        return _Target(topic=topic, suffix="DLQ", initial_subscription=self.policy.initial_subscription)

    async def _choose(self, named_after: str, name: str, legacy: str) -> str:
        """Return the name that old clients use, if such a topic exists and this client may use it, else `name`."""
        domain = named_after.partition("://")[0]
        known = f"{domain}://{namespace_of(named_after)}/{legacy}"
        try:
            await self._client.partitions(known, create=False)
        except (TopicNotFound, AuthorizationError):
            return name
        return known

    async def _send(
        self, target: _Target, letter: Outgoing, topic: str, version: bytes, consumer_name: str
    ) -> None:
        key, producer = await self._producer(target, topic, version, consumer_name)
        stored = asyncio.get_running_loop().create_future()
        producer.send_outgoing(letter, stored)
        try:
            await stored
        except _ENDS_A_PRODUCER:
            known = self._producers.get(key)
            if known is not None and known.done() and not known.exception() and known.result() is producer:
                del self._producers[key]  # the next letter opens another producer
            await producer.close()
            raise

    async def _producer(
        self, target: _Target, topic: str, version: bytes, consumer_name: str
    ) -> tuple[_Key, Producer]:
        """Return a producer with the schema that the message was written with, so that readers can decode the letter.

        If the letter topic does not allow that schema, the producer gets the schema of the consumers.
        """

        async def opened(info: SchemaInfo) -> tuple[_Key, Producer]:
            key = target.topic, info.definition
            return key, await _once(
                self._producers, key, lambda: self._open_producer(target, topic, consumer_name, info)
            )

        own, wanted = self._schema.schema_info(), self._schema.written_with(topic, version)
        refused = target.topic, wanted.definition
        if wanted.definition != own.definition and refused not in self._refused:
            try:
                return await opened(wanted)
            except IncompatibleSchema as error:
                self._refused.add(refused)
                logger.warning(
                    "subscription %s: letters of messages with schema version %s get the schema of the consumer,"
                    " which cannot always decode them: %s",
                    self._subscription,
                    version.hex(),
                    error,
                )
        return await opened(own)

    async def _open_producer(
        self, target: _Target, topic: str, consumer_name: str, info: SchemaInfo
    ) -> Producer:
        chance = secrets.token_hex(_RANDOM_BYTES)[:_RANDOM_CHARACTERS]
        options = ProducerOptions(
            producer_name=f"{base_name(topic)}-{self._subscription}-{consumer_name}-{chance}-{target.suffix}",
            schema=_Copied(info),
            # Batches can become thousands of letters at once. If the producer refused one, the client would write all
            # letters of its batch again.
            block_if_queue_full=True,
            chunking_enabled=True,
            initial_subscription_name=target.initial_subscription,
        )
        return await open_producer(self._client, target.topic, options)

    def open(self) -> None:
        """Count one more consumer."""
        self._users += 1

    async def close(self, within_s: float) -> None:
        """Count one consumer fewer. After the last one, close the producers within `within_s`. Never raises."""
        self._users -= 1
        if self._users == 0 and self._producers:
            producers, self._producers = self._producers, {}
            closing = [asyncio.ensure_future(_close(opening)) for opening in producers.values()]
            await asyncio.wait(closing, timeout=within_s)


async def _close(opening: asyncio.Future[Producer]) -> None:
    try:
        await (await opening).close()
    except VelaError as error:
        logger.debug("closing a producer of letters failed: %s", error)


def _default(name_of: Callable[[str, str], str], topic: str, subscription: str) -> str:
    """Return the default name of a topic for letters. Raises InvalidTopicName if it is too long."""
    try:
        return name_of(topic, subscription)
    except NameTooLong as error:
        raise InvalidTopicName(str(error)) from None


async def _once(known: dict[K, asyncio.Future[V]], key: K, make: Callable[[], Awaitable[V]]) -> V:
    """Return the known value, or make it once for all concurrent callers. An error is not remembered."""
    making = known.get(key)
    if making is None:
        making = known[key] = asyncio.ensure_future(make())
    try:
        return await asyncio.shield(making)
    except Exception:
        if known.get(key) is making:
            del known[key]
        raise
