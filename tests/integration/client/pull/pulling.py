"""Pull consumers of a scripted HTTP peer."""

from __future__ import annotations

from typing import Any

from tests.support.scripted_http import ScriptedHttp
from vela.aio.pull.consumer import PullConsumer
from vela.aio.pull.offsets import MemoryOffsets
from vela.options import InitialPosition

TOPIC = "persistent://public/default/orders"


def consumer(http: ScriptedHttp, **options: Any) -> PullConsumer:
    given: dict[str, Any] = {"offset_store": MemoryOffsets(), "initial_position": InitialPosition.Earliest}
    return PullConsumer(http.url, "orders", **{**given, **options})


async def data(pulling: PullConsumer, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = await pulling.receive(timeout_millis=5000)
        found.append(message.data())
        pulling.acknowledge(message)
    return found
