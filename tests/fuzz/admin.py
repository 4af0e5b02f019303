"""Send generated bodies to the admin REST API in this process, with a broker that has none of the topics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Final, NoReturn, cast

from broker.access.access import Access
from broker.conf import BrokerSettings
from broker.core.errors import TopicNotFound
from broker.doors.admin.api import API
from broker.doors.admin.application import AdminPages
from broker.doors.ports import AdminPort
from broker.storage.pool import ConnectionPool
from tests.fuzz.json_mutations import mutated_json
from tests.support.broker_harness import ManualClock

__all__ = ["admin_body", "admin_request", "take_admin"]

_NAMES: Final = {
    "domain": "persistent",
    "tenant": "fuzz",
    "namespace": "inputs",
    "topic": "topic",
    "subscription": "s",
    "role": "someone",
    "partition": "0",
}


@cache
def _operations() -> list[tuple[str, str, Any]]:
    """Return method, path and an example body of each operation that takes a body."""
    schema = json.loads(json.dumps(API.get_openapi_schema(path_prefix=""), default=str))
    found = []
    for path, methods in schema["paths"].items():
        for method, each in methods.items():
            if "requestBody" in each:
                body = each["requestBody"]["content"]["application/json"]["schema"]
                found.append((method.upper(), path.format(**_NAMES), _example(body, schema, 0)))
    return found


def _example(described: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
    """Return a value that has all members of the described one."""
    if "$ref" in described:
        return _example(schema["components"]["schemas"][described["$ref"].rpartition("/")[2]], schema, depth)
    for choice in ("anyOf", "allOf", "oneOf"):
        if choice in described:
            return _example(described[choice][0], schema, depth)
    if "enum" in described:
        return described["enum"][0]
    match described.get("type"):
        case "object":
            members = described.get("properties", {}) if depth < 4 else {}
            return {name: _example(each, schema, depth + 1) for name, each in members.items()} or {"a": "b"}
        case "array":
            return [_example(described.get("items", {}), schema, depth + 1)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return "text"


def admin_body(random: Random) -> bytes:
    """Return the number of an operation, a line feed, and a body."""
    operations = _operations()
    number = int(random.random() * len(operations))
    return b"%d\n%b" % (number, mutated_json(random, operations[number][2], [b"{}", b"[]"]))


def admin_request(data: bytes) -> tuple[str, str, bytes]:
    """Return method, path and body of an input that `admin_body` made."""
    number, _, body = data.partition(b"\n")
    method, path, _ = _operations()[int(number)]
    return method, path, body


class _Nothing:
    """Any part of a broker that has no topics. Each call of it raises TopicNotFound."""

    def __getattr__(self, name: str) -> _Nothing:
        return self

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TopicNotFound("there is none")


class _EmptyBroker(_Nothing):
    def __init__(self) -> None:
        self.settings = BrokerSettings()
        self.clock = ManualClock()
        self.access = Access(self.settings, ConnectionPool("", name="none", size=1))

    def is_ready(self) -> tuple[bool, str]:
        return True, ""


@cache
def _pages() -> tuple[AdminPages, asyncio.AbstractEventLoop]:
    return AdminPages(cast("AdminPort", _EmptyBroker())), asyncio.new_event_loop()


def take_admin(data: bytes) -> None:
    """Send the request. Raises AssertionError if the answer is a fault of the broker."""
    method, path, body = admin_request(data)
    pages, loop = _pages()
    statuses: list[int] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Mapping[str, Any]) -> None:
        if "status" in event:
            statuses.append(event["status"])

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    loop.run_until_complete(pages(scope, receive, send))
    assert statuses, f"{method} {path}: no answer"
    assert statuses[0] < 500, f"{method} {path}: {statuses[0]}"
