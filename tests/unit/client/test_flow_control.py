"""Which permits a consumer grants to the broker, with and without a memory limit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vela.core.flow.flow_control import FlowControl
from vela.core.flow.memory_limit import MemoryLimit
from vela.core.flow.receive_window import ReceiveWindow
from vela.core.flow.zero_queue import ZeroQueueBalance
from vela.message import Message, ReceivedEntry


def messages(count: int, *, size: int) -> list[Message]:
    body: Any = SimpleNamespace(payload=b"." * size)
    return [Message(body, ReceivedEntry("t", 1, number)) for number in range(count)]


def deliver(flow: FlowControl, shown: list[Message], permits: int) -> None:
    flow.spent(permits)
    flow.keep(shown, permits)


def test_permits_of_taken_dropped_and_hidden_messages_are_granted_again() -> None:
    sent: list[int] = []
    flow = FlowControl(ReceiveWindow(4), MemoryLimit(0), sent.append)
    flow.attached()
    deliver(flow, messages(2, size=5), 4)
    flow.taken(*messages(1, size=5))
    flow.taken(*messages(1, size=5))
    flow.give_back(1)
    flow.not_shown(1)
    assert sent == [4, 2, 2]


def test_at_the_memory_limit_permits_wait_until_messages_are_taken() -> None:
    sent: list[int] = []
    memory = MemoryLimit(10)
    flow = FlowControl(ReceiveWindow(2), memory, sent.append)
    flow.attached()
    deliver(flow, messages(1, size=20), 2)
    flow.give_back(1)
    assert sent == [2]
    flow.taken(*messages(1, size=20))
    assert (sum(sent), memory.used_bytes) == (4, 0)
    flow.untaken(*messages(1, size=20))
    assert memory.used_bytes == 20
    flow.close()
    assert memory.used_bytes == 0


@pytest.mark.row("S2.8")
def test_permits_that_wait_for_memory_also_wait_until_a_paused_consumer_is_resumed() -> None:
    sent: list[int] = []
    flow = FlowControl(ReceiveWindow(2), MemoryLimit(10), sent.append)
    flow.attached()
    deliver(flow, messages(1, size=20), 2)
    flow.give_back(1)
    flow.pause()
    flow.taken(*messages(1, size=20))
    assert sent == [2]
    flow.resume()
    assert sent == [2, 2]


def test_without_a_queue_a_permit_is_granted_only_for_a_message_that_is_wanted() -> None:
    sent: list[int] = []
    wanted = 0
    flow = FlowControl(ZeroQueueBalance(lambda: wanted), MemoryLimit(0), sent.append)
    flow.attached()
    assert sent == []
    wanted = 1
    flow.attached()
    flow.not_shown(3)
    assert sent == [1, 3]
    wanted = 0
    deliver(flow, messages(1, size=5), 1)
    flow.taken(*messages(1, size=5))
    assert sent == [1, 3]
    assert flow.permits.available(7) == 0


def test_nothing_more_arrives_once_the_broker_has_no_permits() -> None:
    flow = FlowControl(ReceiveWindow(4), MemoryLimit(0), lambda permits: None)
    spent = [flow.is_spent]
    flow.attached()
    (message,) = messages(1, size=5)
    deliver(flow, [message] * 3, 3)
    spent.append(flow.is_spent)
    flow.not_shown(1)
    spent.append(flow.is_spent)
    flow.taken(message)
    spent.append(flow.is_spent)
    assert spent == [True, False, True, False]


def test_permits_that_wait_for_memory_are_not_at_the_broker() -> None:
    sent: list[int] = []
    flow = FlowControl(ReceiveWindow(2), MemoryLimit(10), sent.append)
    flow.attached()
    deliver(flow, messages(1, size=20), 1)
    flow.give_back(1)
    assert (sent, flow.is_spent) == ([2], False)
    deliver(flow, messages(1, size=20), 1)
    assert (sent, flow.is_spent) == ([2], True)
