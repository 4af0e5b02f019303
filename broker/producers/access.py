"""Admit, queue and fence the producers of one topic."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.core.errors import (
    BrokerError,
    PersistenceFailed,
    ProducerBusy,
    ProducerFenced,
    ServiceNotReady,
)
from broker.core.producers.access import AccessMode, Admission, admission, next_epoch
from broker.storage.pool import first_line

if TYPE_CHECKING:
    from broker.core.topic_name import TopicName
    from broker.producers.producer import Producer

__all__ = ["ProducerAccess"]

logger = logging.getLogger(__name__)

# In these access modes, a new producer replaces a producer whose connection no longer answers.
_PROBED = (AccessMode.SHARED, AccessMode.EXCLUSIVE, AccessMode.WAIT_FOR_EXCLUSIVE)


class ProducerAccess:
    """The producers of one topic, attached or waiting for exclusive access."""

    def __init__(
        self,
        name: TopicName,
        *,
        topic_epoch: int | None,
        store_epoch: Callable[[int], Awaitable[None]],
        prepare: Callable[[Producer], Awaitable[None]],
        run: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.producers: dict[str, Producer] = {}
        self.topic_epoch = topic_epoch
        self.max_producers = 0  # 0 means no limit
        self._topic_name = name
        self._store_epoch = store_epoch
        self._prepare = prepare
        self._run = run
        self._exclusive: Producer | None = None
        self._waiting: list[Producer] = []

    @property
    def waiting(self) -> int:
        """The number of producers that wait for exclusive access."""
        return len(self._waiting)

    @property
    def is_claimed(self) -> bool:
        """Whether a producer has exclusive access or waits for it."""
        return bool(self._waiting) or self._exclusive is not None

    async def admit(self, producer: Producer) -> None:
        """Attach a producer, or let it wait for exclusive access.

        Raises ProducerBusy, ProducerFenced, ServiceNotReady, and the errors of `store_epoch`. After an error or a
        cancellation, call `remove`.
        """
        if producer.access_mode in _PROBED:
            await self._make_room(producer)
        verdict = admission(
            producer.access_mode,
            topic=str(self._topic_name),
            producers=len(self.producers),
            exclusive=None if self._exclusive is None else self._exclusive.name,
            waiting=len(self._waiting),
            topic_epoch=self.topic_epoch,
            known_epoch=producer.request.topic_epoch,
        )
        if verdict is Admission.WAIT:
            self._waiting.append(producer)
            return
        if verdict is Admission.TAKE_OVER:
            self._fence_others(producer)
        if self.max_producers and len(self.producers) >= self.max_producers:
            raise ProducerBusy(
                f"{self._topic_name} has {len(self.producers)} producers, its limit (max_producers); close one"
            )
        if verdict is Admission.JOIN:
            await self._attach(producer, None)
        else:
            self._exclusive = producer
            await self._take(producer)

    async def _make_room(self, producer: Producer) -> None:
        while (other := self._in_the_way_of(producer)) is not None:
            # The topic's producers may change during this wait.
            is_alive = not self._comes_back(producer, other) and await other.sink.is_alive()
            if self._in_the_way_of(producer) is not other:
                continue
            if not is_alive:
                other.closed_by_broker(None)
                self.remove(other)
            elif producer.access_mode is AccessMode.SHARED and self._exclusive is None:
                raise ProducerBusy(
                    f"producer {producer.name} is connected to {self._topic_name} already; close it or choose"
                    " another name"
                )
            else:
                return

    def _in_the_way_of(self, producer: Producer) -> Producer | None:
        named = self.producers.get(producer.name)
        if named is not None or self._exclusive is None:
            return named
        return None if self._exclusive.is_ready else self._exclusive

    def _comes_back(self, producer: Producer, other: Producer) -> bool:
        known_epoch = producer.request.topic_epoch
        is_owner = other is self._exclusive and other.is_ready and other.name == producer.name
        return is_owner and known_epoch is not None and known_epoch == self.topic_epoch

    def _fence_others(self, newcomer: Producer) -> None:
        reason = f"producer {newcomer.name} took {self._topic_name} for itself"
        others = [*self._waiting, *self.producers.values()]
        if self._exclusive is not None and self._exclusive not in others:
            others.append(self._exclusive)
        self._waiting.clear()
        self.producers.clear()
        self._exclusive = newcomer
        for other in others:
            logger.info(
                "%s: producer %s is fenced: %s",
                self._topic_name,
                other.name,
                reason,
                extra={"topic": str(self._topic_name), "producer": other.name},
            )
            other.closed_by_broker(ProducerFenced(reason))

    async def _take(self, producer: Producer) -> None:
        """Attach the producer. The caller must set `_exclusive` first."""
        epoch = next_epoch(self.topic_epoch, producer.request.topic_epoch)
        try:
            await self._store_epoch(epoch)
            if self._exclusive is None:
                raise ServiceNotReady(
                    f"{self._topic_name} closed its producers while producer {producer.name} was opened; open it again"
                )
            if self._exclusive is not producer or not producer.is_open:
                raise ProducerFenced(f"another producer took {self._topic_name} meanwhile; open it again")
        except BaseException:
            if self._exclusive is producer:
                self._exclusive = None
                self._promote()
            raise
        self.topic_epoch = epoch
        await self._attach(producer, epoch)

    async def _attach(self, producer: Producer, epoch: int | None) -> None:
        self.producers[producer.name] = producer
        await self._prepare(producer)
        if not producer.is_open:
            raise ServiceNotReady(f"producer {producer.name} was closed while it was opened; open it again")
        producer.admitted(epoch)

    def remove(self, producer: Producer) -> None:
        """Remove an attached or waiting producer. Safe to repeat."""
        if producer in self._waiting:
            self._waiting.remove(producer)
        if self.producers.get(producer.name) is producer:
            del self.producers[producer.name]
        if self._exclusive is producer:
            self._exclusive = None
        self._promote()

    def close(self, error: BrokerError | None) -> None:
        """Close every attached or waiting producer."""
        everybody = [*self.producers.values(), *self._waiting]
        self.producers.clear()
        self._waiting.clear()
        self._exclusive = None
        for producer in everybody:
            producer.closed_by_broker(error)

    def _promote(self) -> None:
        if self._waiting and self._exclusive is None and not self.producers:
            self._exclusive = self._waiting.pop(0)
            self._run(self._hand_over(self._exclusive))

    async def _hand_over(self, producer: Producer) -> None:
        try:
            await self._take(producer)
        except BrokerError as error:
            producer.closed_by_broker(error)
        except Exception as error:  # Without an answer, the client would wait for ever
            logger.exception(
                "%s: producer %s waited for exclusive access and cannot get it",
                self._topic_name,
                producer.name,
                extra={"topic": str(self._topic_name), "producer": producer.name},
            )
            producer.closed_by_broker(
                PersistenceFailed(
                    f"producer {producer.name} cannot get exclusive access: {first_line(error)}"
                )
            )
        else:
            if producer.request.on_ready is not None:
                producer.request.on_ready()
