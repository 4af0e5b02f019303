"""The pushed messages that have no answer yet, and which of them a cumulative ack answers."""

from __future__ import annotations

from broker.doors.websocket.json.unanswered import Unanswered
from vela.wire.message_id import MessageId


def test_a_cumulative_ack_answers_its_message_and_all_before_it() -> None:
    sent = Unanswered()
    for ledger, entry in [(1, 8), (1, 9), (2, 0), (2, 1)]:
        sent.pushed(ledger, entry, -1)
    sent.answered(MessageId(1, 9))
    sent.answered(MessageId(1, 9))
    assert sent.answered_through(MessageId(2, 0)) == 2
    assert sent.answered_through(MessageId(2, 0)) == 0
    assert len(sent) == 1


def test_a_cumulative_ack_inside_a_batch_answers_its_members_up_to_there() -> None:
    sent = Unanswered()
    for index in range(5):
        sent.pushed(1, 0, index)
    assert sent.answered_through(MessageId(1, 0, batch_index=1, batch_size=5)) == 2
    assert sent.answered_through(MessageId(1, 0)) == 3


def test_every_copy_of_a_message_has_its_place() -> None:
    sent = Unanswered()
    for _ in range(3):
        sent.pushed(1, 0, -1)
    sent.answered(MessageId(1, 0))
    assert sent.answered_through(MessageId(1, 0)) == 2


def test_the_oldest_messages_are_forgotten_first() -> None:
    sent = Unanswered(most=2)
    for entry in range(5):
        sent.pushed(1, entry, -1)
    assert len(sent) == 2
    assert sent.answered_through(MessageId(1, 2)) == 0
    assert sent.answered_through(MessageId(1, 9)) == 2
