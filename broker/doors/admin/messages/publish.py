"""Pulsar's REST producer, which stores the messages of `POST /topics/…`."""
# ruff: noqa: N815 - the names of members are Pulsar's

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Annotated, Final

from ninja import Router
from pydantic import AfterValidator, BaseModel, Field

from broker.core.access.permissions import Action
from broker.core.client_identity import ClientIdentity
from broker.core.errors import BrokerError, IncompatibleSchema
from broker.core.schemas.schema import version_number
from broker.core.topic_name import TopicName
from broker.doors.admin.catalogue import named
from broker.doors.admin.messages.rest_schema import RestSchema, schema_of
from broker.doors.admin.messages.rest_sends import RestSends
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest, Number, PulsarObject
from broker.doors.asgi import certificate_of
from broker.doors.times import parse_time
from broker.log.sends import Receipt
from broker.producers.requests import ProducerRequest
from vela.wire.entry import OutgoingMessage
from vela.wire.key_hash import java_string_hash

__all__ = ["router"]

_TOPIC: Final = "/topics/{domain:domain}/{segment:tenant}/{segment:namespace}/{segment:topic}"
MAX_MESSAGES: Final = 1000
_AGAIN, _REFUSED = 1, 2  # Pulsar's error codes
_MAX_INT64: Final = 2**63 - 1
_MOST_DIGITS: Final = 30
_LONGEST_TURN_S: Final = 0.01


def _in_utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it contains half of a surrogate pair, which UTF-8 cannot write") from None
    return text


_Text = Annotated[str, AfterValidator(_in_utf8)]
_Time = Annotated[Number, Field(ge=0, le=_MAX_INT64)]

router = Router()


class RestMessage(PulsarObject):
    """One message."""

    payload: _Text
    key: _Text | None = None
    properties: dict[_Text, _Text] = Field(default_factory=dict)
    eventTime: str | None = None  # Milliseconds since 1970, or ISO 8601
    # The largest 64-bit number is not allowed, because no id could follow that number.
    sequenceId: Annotated[Number, Field(ge=0, lt=_MAX_INT64)] | None = None
    deliverAt: _Time = 0  # Milliseconds since 1970
    deliverAfterMs: _Time = 0


class RestMessages(PulsarObject):
    """The messages of one request, and the producer name and schema for all of them."""

    messages: Annotated[list[RestMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    producerName: _Text | None = None
    schemaVersion: Number = -1  # Negative if not given
    keySchema: str | None = None
    valueSchema: str | None = None  # A SchemaInfo in JSON. The JSON may be encoded in base64.


class RestResult(BaseModel):
    """The result for one message."""

    messageId: str | None = None  # In the form ledger:entry:partition
    errorCode: int = 0
    errorMsg: str | None = None
    schemaVersion: int = 0


class RestResults(BaseModel):
    """The results for the messages, in the order of the request."""

    messagePublishResults: list[RestResult]
    schemaVersion: int = 0


@operation(router, "POST", _TOPIC, Action.PRODUCE)
async def publish_messages(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, given: RestMessages
) -> RestResults:
    """Publish messages. The key decides the partition. A request's messages without a key go to one partition."""
    name = named(domain, tenant, namespace, topic)
    count = await request.broker.partition_count(name, create=True)
    return await _published(request, name, _by_key(name, count, given.messages), given)


@operation(router, "POST", f"{_TOPIC}/partitions/{{number:partition}}", Action.PRODUCE)
async def publish_messages_to_partition(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    partition: int,
    given: RestMessages,
) -> RestResults:
    """Publish messages to one partition."""
    name = named(domain, tenant, namespace, topic)
    if name.partition is not None:
        raise Refused(400, f"{name} is a partition already: leave out /partitions/{partition}")
    count = await request.broker.partition_count(name, create=True)
    if not 0 <= partition < count:
        raise Refused(404, f"there is no partition {partition}: {name} has {count}")
    return await _published(request, name, [name.with_partition(partition)] * len(given.messages), given)


_turns = itertools.count()


def _by_key(name: TopicName, count: int, messages: Sequence[RestMessage]) -> list[TopicName]:
    """Return a topic or partition for each message. Keys are hashed with the Java client's default hash."""
    if not count:
        return [name] * len(messages)
    turn = next(_turns) % count
    return [
        name.with_partition(turn if each.key is None else java_string_hash(each.key) % count)
        for each in messages
    ]


async def _published(
    request: AdminRequest, name: TopicName, targets: Sequence[TopicName], given: RestMessages
) -> RestResults:
    _check_sequence_ids(given.messages)
    schema = await schema_of(
        request.broker.schemas,
        name,
        version=given.schemaVersion,
        key_schema=given.keySchema,
        value_schema=given.valueSchema,
    )
    now_ms = request.broker.clock.now_ms()
    outgoing = await _all_outgoing(given.messages, schema, now_ms)
    lanes = {
        each: RestSends(
            request.broker,
            ProducerRequest(
                topic=each,
                name=given.producerName or None,
                user_provided_name=bool(given.producerName),
                schema=schema.new,
            ),
        )
        for each in dict.fromkeys(targets)
    }
    try:
        versions = {each: await lane.open(_identity(request)) for each, lane in lanes.items()}
        results = await asyncio.gather(
            *(
                lanes[target].publish(
                    message,
                    sequence_id=each.sequenceId,
                    publish_time_ms=now_ms,
                    deliver_at_ms=now_ms + each.deliverAfterMs if each.deliverAfterMs else each.deliverAt,
                    schema_version=schema.version or versions[target],
                )
                for target, message, each in zip(targets, outgoing, given.messages, strict=True)
            ),
            return_exceptions=True,
        )
    finally:
        for lane in lanes.values():
            lane.close()
    version = schema.version or versions[targets[0]]
    number = version_number(version) if version else 0
    return RestResults(
        messagePublishResults=[
            _result(target, found, number) for target, found in zip(targets, results, strict=True)
        ],
        schemaVersion=number,
    )


def _result(target: TopicName, found: object, schema_version: int) -> RestResult:
    partition = -1 if target.partition is None else target.partition
    if isinstance(found, BrokerError):
        code = _AGAIN if found.retriable else _REFUSED
        return RestResult(errorCode=code, errorMsg=str(found), schemaVersion=schema_version)
    if isinstance(found, BaseException):
        raise found
    receipt: Receipt = found  # type: ignore[assignment]  # gather returns what publish returned
    where = f"{receipt.ledger_id}:{receipt.entry_id}:{partition}"
    return RestResult(messageId=where, schemaVersion=schema_version)


async def _all_outgoing(
    messages: Sequence[RestMessage], schema: RestSchema, now_ms: int
) -> list[OutgoingMessage]:
    """Encode the messages. Let other tasks run in between, because schema checks may be slow."""
    outgoing: list[OutgoingMessage] = []
    turn_s = time.monotonic()
    for each in messages:
        if time.monotonic() - turn_s > _LONGEST_TURN_S:
            await asyncio.sleep(0)
            turn_s = time.monotonic()
        outgoing.append(_outgoing(each, schema, now_ms))
    return outgoing


def _outgoing(given: RestMessage, schema: RestSchema, now_ms: int) -> OutgoingMessage:
    event_time_ms = 0
    if given.eventTime:
        try:
            is_number = given.eventTime.isdecimal()
            if is_number and len(given.eventTime) > _MOST_DIGITS:
                raise ValueError(f"a number of milliseconds has {_MOST_DIGITS} digits at most")
            event_time_ms = int(given.eventTime) if is_number else parse_time(given.eventTime)
        except ValueError as error:
            raise Refused(400, f"eventTime: {error}") from None
        if event_time_ms > _MAX_INT64:
            raise Refused(400, "eventTime is past the last time that a message can carry")
    if given.deliverAfterMs > _MAX_INT64 - max(now_ms, given.deliverAt):
        raise Refused(400, "deliverAfterMs reaches past the last time that a message can carry")
    try:
        payload = schema.encoded(given.payload)
    except IncompatibleSchema as error:
        raise Refused(422, f"a payload does not fit the schema: {error}") from None
    return OutgoingMessage(
        payload=payload, properties=given.properties, key=given.key, event_time_ms=event_time_ms
    )


def _check_sequence_ids(messages: Sequence[RestMessage]) -> None:
    ids = [each.sequenceId for each in messages if each.sequenceId is not None]
    if ids and (len(ids) < len(messages) or any(b <= a for a, b in itertools.pairwise(ids))):
        raise Refused(400, "give every message a sequenceId, each higher than the one before, or none")


def _identity(request: AdminRequest) -> ClientIdentity:
    host, port = (request.scope.get("client") or ("", 0))[:2]
    certificate = certificate_of(request.scope)
    return ClientIdentity(
        address=f"{host}:{port}",
        client_version=request.headers.get("User-Agent", ""),
        face="rest",
        certificate_name=certificate.name if certificate is not None else "",
    )
