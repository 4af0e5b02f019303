"""Answer HTTP requests for paths below `/pull/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.core.topic_name import TopicName
from broker.doors.asgi import json_reason, respond
from broker.doors.guard import GuardedBroker
from broker.doors.http_credentials import principal_of
from broker.doors.pull.answers import PullAnswers, refusal
from broker.doors.pull.wire.request import OffsetRequest, parse_offset_request, parse_pull_topic

if TYPE_CHECKING:
    from broker.core.access.principal import Principal
    from broker.doors.asgi import Receive, Scope, Send
    from broker.doors.ports import BrokerPort, PullsPort

__all__ = ["PullPages"]

OFFSET_PREFIX: Final = "/pull/v1-offset/"
QUEUES_PREFIX: Final = "/pull/v1-queues/"


class _Gone(Exception):
    """The peer disconnected before its pull was answered."""


class PullPages:
    """The ASGI application for paths below `/pull/`."""

    def __init__(self, broker: BrokerPort, answers: PullAnswers) -> None:
        self._broker = broker
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, body = await self._answer(scope, receive)
        except _Gone:
            return
        except Exception as error:
            status, body = refusal(error)
        headers = [(b"allow", _methods(scope).encode())] if status == 405 else []
        await respond(scope, send, status, body, headers=headers)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        raw_path = scope["raw_path"].decode("latin-1")
        method, query = scope["method"], scope["query_string"]
        principal = await principal_of(self._broker, scope)
        broker = GuardedBroker(self._broker, principal)
        ready, why_not = broker.is_ready()
        if not ready:
            return 503, json_reason(why_not)
        if method not in (methods := _methods(scope)).split(", "):
            return 405, json_reason(f"{raw_path} takes {methods}")
        if raw_path.startswith(OFFSET_PREFIX):
            topic = parse_pull_topic(raw_path, OFFSET_PREFIX)
            request = parse_offset_request(topic, query, is_commit=method == "PUT")
            return 200, await _offset(broker, request, scope["client"])
        if raw_path.startswith(QUEUES_PREFIX):
            name = TopicName.parse(parse_pull_topic(raw_path, QUEUES_PREFIX))
            queues = max(1, await broker.partition_count(name, create=False))
            return 200, json.dumps({"queues": queues}).encode()
        client = scope["client"]
        address = f"{client[0]}:{client[1]}" if client else ""
        return await self._pull(raw_path, query.decode("latin-1"), receive, principal, address)

    async def _pull(
        self, raw_path: str, query: str, receive: Receive, principal: Principal, address: str
    ) -> tuple[int, bytes]:
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        pull = self._answers.begin(
            raw_path,
            query,
            lambda status, body: answered.set_result((status, body)),
            principal=principal,
            address=address,
        )
        if pull is None:
            return answered.result()
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((answered, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answered.done():
                raise _Gone
            return answered.result()
        finally:
            gone.cancel()
            pull.leave()


def _methods(scope: Scope) -> str:
    return "GET, PUT" if scope["raw_path"].startswith(OFFSET_PREFIX.encode()) else "GET"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _offset(broker: PullsPort, request: OffsetRequest, client: Sequence[Any] | None) -> bytes:
    topic = TopicName.parse(request.topic)
    if request.offset is None:
        offset = await broker.committed_offset(topic, request.queue, request.subscription)
    else:
        peer = client[0] if client else "unknown"
        offset = await broker.commit_offset(topic, request.queue, request.subscription, request.offset, peer)
    return json.dumps({"offset": offset}).encode()
