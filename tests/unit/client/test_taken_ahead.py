"""vela.blocking: messages taken ahead are returned once, in order, and never lost to an interrupt."""

from __future__ import annotations

import pytest

from vela.blocking.taken_ahead import TakenAhead
from vela.message import Message, ReceivedEntry
from vela.wire.entry import Message as Body


class Receiver:
    """A consumer that says for each message whether the broker will deliver it again."""

    def __init__(self, *, past: tuple[int, ...] = (), interrupts: int = 0) -> None:
        self.past = past
        self.interrupts = interrupts

    def is_awaited(self, message: Message) -> bool:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return message.entry.entry_id not in self.past


def filled(receiver: Receiver, count: int = 4) -> TakenAhead:
    ahead = TakenAhead()
    body = Body(b"", {}, None, 0, 0, -1, 0, 0, "p", None)
    ahead.add(Message(body, ReceivedEntry("t", 1, number, receiver=receiver)) for number in range(count))
    return ahead


def numbers(ahead: TakenAhead) -> list[int]:
    found = []
    while (message := ahead.next()) is not None:
        found.append(message.entry.entry_id)
    return found


def test_messages_come_in_order_without_those_that_come_again() -> None:
    ahead = filled(Receiver(past=(0, 2)))
    assert ahead
    assert numbers(ahead) == [1, 3]
    assert not ahead


@pytest.mark.row("S0.34")
def test_an_interrupted_call_leaves_the_message() -> None:
    ahead = filled(Receiver(interrupts=1))
    with pytest.raises(KeyboardInterrupt):
        ahead.next()
    assert numbers(ahead) == [0, 1, 2, 3]


def test_clearing_returns_the_messages() -> None:
    ahead = filled(Receiver())
    assert [message.entry.entry_id for message in ahead.clear()] == [0, 1, 2, 3]
    assert ahead.next() is None
