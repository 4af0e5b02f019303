"""Answer `GET /pull/v1/…`. A pull that finds no messages may be parked until messages arrive."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.doors.asgi import json_reason
from broker.doors.guard import GuardedBroker
from broker.doors.http_credentials import challenge_fields, principal_now
from broker.doors.pull.wire.answer import AnsweredMessage, encode_answer
from broker.doors.pull.wire.request import PullRequest, parse_pull_request, parse_pull_topic
from broker.doors.server_errors import http_status
from broker.doors.web_gate import WebGate
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk, PulledMessage, PullStatus
from vela.wire.errors import InvalidPull
from vela.wire.message_id import MessageId
from vela.wire.pull.codes import PullCode
from vela.wire.pull.tags import TAG_PROPERTY

if TYPE_CHECKING:
    from broker.core.access.credentials import ClientCertificate
    from broker.core.access.principal import Principal
    from broker.doors.ports import BrokerPort

__all__ = ["PULL_PREFIX", "MustWait", "PullAnswers", "PullInProgress", "Respond", "refusal"]

logger = logging.getLogger(__name__)

PULL_PREFIX: Final = "/pull/v1/"

_REMEMBERED: Final = 1024
_REMEMBERED_CHARACTERS: Final = 512
_CODES: Final = {
    PullStatus.FOUND: PullCode.SUCCESS,
    PullStatus.NOT_FOUND: PullCode.PULL_NOT_FOUND,
    PullStatus.NONE_MATCHED: PullCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.OFFSET_MOVED: PullCode.PULL_OFFSET_MOVED,
}


class MustWait(Exception):
    """An asyncio task must answer the pull, because the credentials cannot be checked at once."""


Respond: TypeAlias = Callable[[int, bytes], None]  # HTTP status and JSON body


class PullAnswers:
    """Answers all pulls of one process. Use only on the event loop."""

    def __init__(self, broker: BrokerPort) -> None:
        self._broker = broker
        self.gate = WebGate(broker.settings)
        self.challenge = challenge_fields(broker.access)
        self.reading: set[asyncio.Task[None]] = set()
        # The parked pulls for `_recheck`. If the broker asks clients for no credentials, the set stays empty.
        self.parked: set[PullInProgress] = set()
        if broker.access.is_on:
            broker.access.watch(self._recheck)
        self._encoded: tuple[PullAnswer | None, bytes] = (None, b"")

    def begin_for(
        self,
        authorization: bytes | None,
        path: str,
        query: str,
        respond: Respond,
        *,
        address: str,
        certificate: ClientCertificate | None,
    ) -> PullInProgress | None:
        """Authenticate the client, then call `begin`.

        If the credentials cannot be checked at once, raises MustWait without calling `respond`.
        """
        try:
            host = address.rpartition(":")[0]
            principal = principal_now(self._broker, authorization, certificate=certificate, host=host)
        except BrokerError as error:
            respond(*refusal(error))
            return None
        if principal is None:
            raise MustWait
        return self.begin(path, query, respond, principal=principal, address=address)

    def begin(
        self, path: str, query: str, respond: Respond, *, principal: Principal, address: str
    ) -> PullInProgress | None:
        """Answer a pull now and return None, or return the pull in progress. Raises nothing.

        `path` and `query` are percent-encoded. `respond` is called once, unless `leave` or `stop` ends the pull first.
        """
        broker = GuardedBroker(self._broker, principal)
        try:
            ready, why_not = broker.is_ready()
            if not ready:
                respond(503, json_reason(why_not))
                return None
            read = _remembered if len(path) + len(query) <= _REMEMBERED_CHARACTERS else _read
            ask = read(path, query)
            found = broker.pull_now(ask)
        except Exception as error:
            respond(*refusal(error))
            return None
        if isinstance(found, PullAnswer):
            respond(200, self.body(found))
            return None
        pull = PullInProgress(self, broker, respond, topic=ask.topic, address=address)
        if found is None:
            pull.read(ask)
        else:
            pull.park(found)
        return pull

    async def stop(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for the reads from the database, then cancel those that are not done.

        Wait at most `timeout_s` again for the cancelled reads to end.
        """
        if self.reading:
            _, late = await asyncio.wait(self.reading, timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=timeout_s)

    def _recheck(self) -> None:
        for pull in list(self.parked):
            pull.recheck()

    def body(self, answer: PullAnswer) -> bytes:
        """Return an answer as JSON."""
        encoded, body = self._encoded
        if encoded is not answer:
            body = _encode(answer)
            self._encoded = answer, body
        return body


class PullInProgress:
    """A pull that waits for messages or for the database."""

    __slots__ = ("_address", "_answers", "_broker", "_parked", "_respond", "_task", "_topic")

    def __init__(
        self, answers: PullAnswers, broker: GuardedBroker, respond: Respond, *, topic: TopicName, address: str
    ) -> None:
        self._topic = topic
        self._address = address
        self._answers = answers
        self._broker = broker
        self._respond: Respond | None = respond
        self._parked: ParkedPull | None = None
        self._task: asyncio.Task[None] | None = None

    def park(self, parked: ParkedPull) -> None:
        """Respond when the broker answers the parked pull."""
        self._parked = parked
        if self._broker.is_locked():
            self._answers.parked.add(self)
        parked.address = self._address
        parked.answer.add_done_callback(self._woken)

    def read(self, ask: PullAsk) -> None:
        """Start a task that reads from the database and responds."""
        task = self._task = asyncio.get_running_loop().create_task(self._read(ask))
        self._answers.reading.add(task)
        task.add_done_callback(self._answers.reading.discard)

    def leave(self) -> None:
        """Give up the pull. Safe to repeat, and safe after the answer."""
        self._respond = None
        self._answers.parked.discard(self)
        if self._parked is not None:
            self._broker.forget_pull(self._parked)
        if self._task is not None:
            self._task.cancel()

    async def _read(self, ask: PullAsk) -> None:
        try:
            found = await self._broker.pull(ask)
        except Exception as error:
            self._end(*refusal(error))
            return
        if isinstance(found, ParkedPull):
            self.park(found)
        else:
            self._end(200, self._answers.body(found))

    def _woken(self, answer: asyncio.Future[PullAnswer]) -> None:
        if not answer.cancelled() and self.recheck():
            self._end(200, self._answers.body(answer.result()))

    def recheck(self) -> bool:
        """Return whether the client may still receive the answer. If not, refuse the pull."""
        try:
            self._broker.check_answer(self._topic)
        except BrokerError as error:
            parked, self._parked = self._parked, None
            if parked is not None:
                self._broker.forget_pull(parked)
            self._end(*refusal(error))
            return False
        return True

    def _end(self, status: int, body: bytes) -> None:
        self._answers.parked.discard(self)
        respond, self._respond = self._respond, None
        if respond is not None:
            respond(status, body)


def refusal(error: Exception) -> tuple[int, bytes]:
    """Return the status and body for a failed request. Log an unexpected error."""
    if isinstance(error, InvalidPull):
        return 400, json_reason(str(error))
    if isinstance(error, BrokerError):
        return http_status(error), json_reason(str(error))
    logger.error("a request to /pull/ failed unexpectedly; it is answered with status 500", exc_info=error)
    return 500, json_reason("internal error; see the broker's log")


def _read(path: str, query: str) -> PullAsk:
    request = parse_pull_request(parse_pull_topic(path, PULL_PREFIX), query)
    return PullAsk(
        topic=TopicName.parse(request.topic),
        queue=request.queue,
        offset=request.offset,
        max_messages=request.max_messages,
        matches=_matcher(request),
        may_suspend=request.may_suspend,
        suspend_timeout_ms=request.suspend_timeout_ms,
    )


# Pulls with the same path and query get the same filter object, so they can share an answer.
_remembered = functools.lru_cache(_REMEMBERED)(_read)


def _matcher(request: PullRequest) -> Callable[[Mapping[str, str]], bool] | None:
    tags, property_filter = request.tags, request.property_filter
    if tags is None:
        return property_filter
    if property_filter is None:
        return lambda properties: properties.get(TAG_PROPERTY) in tags
    return lambda properties: properties.get(TAG_PROPERTY) in tags and property_filter(properties)


def _encode(answer: PullAnswer) -> bytes:
    return encode_answer(
        _CODES[answer.status],
        next_begin_offset=answer.next_begin_offset,
        min_offset=answer.min_offset,
        max_offset=answer.max_offset,
        messages=[_message(each, answer.partition) for each in answer.messages],
        unreadable_messages=answer.unreadable_messages,
    )


def _message(pulled: PulledMessage, partition: int) -> AnsweredMessage:
    message = pulled.message
    message_id = MessageId(
        pulled.position.ledger_id,
        pulled.position.entry_id,
        partition,
        message.batch_index,
        message.batch_size,
    )
    return AnsweredMessage(
        pulled.offset,
        str(message_id),
        message.key,
        message.properties,
        message.publish_time_ms,
        message.event_time_ms,
        message.payload,
    )
