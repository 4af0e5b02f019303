"""The producers of a subscription's letters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vela.aio.letters import letter_box
from vela.aio.letters.letter_box import LetterBox
from vela.core.producing.outgoing import Outgoing
from vela.errors import TopicTerminated, VelaError
from vela.schema.primitive import BytesSchema
from vela.wire.letters import DeadLetterPolicy

LETTER = Outgoing(b"x")
TOPIC = "persistent://public/default/t"


class FakeProducer:
    """Refuses every letter with `error`, if there is one."""

    def __init__(self) -> None:
        self.error: VelaError | None = None
        self.letters = 0
        self.is_closed = False

    def send_outgoing(self, _letter: Outgoing, stored: asyncio.Future[Any]) -> None:
        if self.error is None:
            self.letters += 1
            stored.set_result(None)
        else:  # as in real life, the answer comes later
            asyncio.get_running_loop().call_soon(stored.set_exception, self.error)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers that were opened."""
    made: list[FakeProducer] = []

    async def open_producer(*_: object) -> FakeProducer:
        made.append(FakeProducer())
        return made[-1]

    monkeypatch.setattr(letter_box, "open_producer", open_producer)
    return made


async def test_a_producer_that_has_failed_for_ever_is_replaced(opened: list[FakeProducer]) -> None:
    client: Any = None
    policy = DeadLetterPolicy(max_redeliver_count=1, topic="persistent://public/default/dead")
    box = LetterBox(client, policy, subscription="s", on_ack_timeout=False, schema=BytesSchema())
    box.open()

    async def send() -> None:
        await box.send_dead(LETTER, topic=TOPIC, consumer_name="c")

    await send()
    opened[0].error = TopicTerminated("terminated")
    failed = await asyncio.gather(send(), send(), return_exceptions=True)
    assert [type(each) for each in failed] == [TopicTerminated, TopicTerminated]
    await asyncio.gather(send(), send())
    await box.close(1)
    assert [each.letters for each in opened] == [1, 2]
    assert all(each.is_closed for each in opened)
