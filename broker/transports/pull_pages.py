"""`/pull/v1/…` and `/pull/v1-offset/…`: long-poll pull over HTTP (semantics S3, design 8)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.service.pull_values import HeldPull, PullAnswer, PullAsk, PulledMessage, PullStatus
from broker.transports.http_pages import JSON, json_reason
from broker.transports.server_errors import http_status
from vela.wire.errors import InvalidPull
from vela.wire.message_id import MessageId
from vela.wire.pull.answer import AnsweredMessage, PullCode, encode_answer
from vela.wire.pull.request import (
    OffsetRequest,
    PullRequest,
    parse_offset_request,
    parse_pull_request,
    parse_pull_topic,
)
from vela.wire.pull.tags import TAG_PROPERTY

if TYPE_CHECKING:
    from broker.transports.ports import BrokerPort
    from broker.transports.web_socket import Receive, Scope, Send

__all__ = ["OFFSET_PREFIX", "PULL_PREFIX", "PullPages"]

log = logging.getLogger(__name__)

PULL_PREFIX: Final = "/pull/v1/"
OFFSET_PREFIX: Final = "/pull/v1-offset/"

_CODES: Final = {
    PullStatus.FOUND: PullCode.SUCCESS,
    PullStatus.NOT_FOUND: PullCode.PULL_NOT_FOUND,
    PullStatus.NONE_MATCHED: PullCode.PULL_RETRY_IMMEDIATELY,
    PullStatus.OFFSET_MOVED: PullCode.PULL_OFFSET_MOVED,
}


class _Gone(Exception):
    """The peer left while its request was held."""


class PullPages:
    """An ASGI application for the paths of pull."""

    def __init__(self, broker: BrokerPort) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, body = await self._answer(scope, receive)
        except InvalidPull as error:
            status, body = 400, json_reason(str(error))
        except BrokerError as error:
            status, body = http_status(error), json_reason(str(error))
        except _Gone:
            return
        except Exception:
            log.exception("a pull failed")
            status, body = 500, json_reason("internal error; the broker's log says which")
        headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        raw_path = scope["raw_path"].decode("latin-1")
        method, query = scope["method"], scope["query_string"]
        ready, why_not = self._broker.is_ready()
        if not ready:
            return 503, json_reason(why_not)
        if raw_path.startswith(OFFSET_PREFIX):
            if method not in ("GET", "PUT"):
                return 405, json_reason(f"{OFFSET_PREFIX}… takes GET and PUT")
            topic = parse_pull_topic(raw_path, OFFSET_PREFIX)
            return 200, await self._offset(parse_offset_request(topic, query, is_commit=method == "PUT"))
        if method != "GET":
            return 405, json_reason(f"{PULL_PREFIX}… takes GET")
        return 200, await self._pull(
            parse_pull_request(parse_pull_topic(raw_path, PULL_PREFIX), query), receive
        )

    async def _offset(self, request: OffsetRequest) -> bytes:
        topic = TopicName.parse(request.topic)
        if request.offset is None:
            offset = await self._broker.committed_offset(topic, request.queue, request.subscription)
        else:
            offset = await self._broker.commit_offset(
                topic, request.queue, request.subscription, request.offset
            )
        return json.dumps({"offset": offset}).encode()

    async def _pull(self, request: PullRequest, receive: Receive) -> bytes:
        topic = TopicName.parse(request.topic)
        if request.commit_offset is not None and request.subscription is not None:
            await self._broker.commit_offset(
                topic, request.queue, request.subscription, request.commit_offset
            )
        found = await self._broker.pull(
            PullAsk(
                topic=topic,
                queue=request.queue,
                offset=request.offset,
                max_messages=request.max_messages,
                matches=_matcher(request),
                may_suspend=request.may_suspend,
                suspend_timeout_ms=request.suspend_timeout_ms,
            )
        )
        answer = await self._wait(found, receive) if isinstance(found, HeldPull) else found
        return _body(answer)

    async def _wait(self, held: HeldPull, receive: Receive) -> PullAnswer:
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((held.answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not held.answer.done():
                raise _Gone
            return held.answer.result()
        finally:
            gone.cancel()
            self._broker.forget_pull(held)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _matcher(request: PullRequest) -> Callable[[Mapping[str, str]], bool] | None:
    tags, property_filter = request.tags, request.property_filter
    if tags is None:
        return property_filter
    if property_filter is None:
        return lambda properties: properties.get(TAG_PROPERTY) in tags
    return lambda properties: properties.get(TAG_PROPERTY) in tags and property_filter(properties)


def _body(answer: PullAnswer) -> bytes:
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
