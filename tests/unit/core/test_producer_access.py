"""Access modes as a table, and the epochs that exclusive producers get."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.errors import ProducerBusy, ProducerFenced
from broker.core.producers.access import AccessMode, Admission, admission, next_epoch

FREE: dict[str, Any] = {
    "producers": 0, "exclusive": None, "waiting": 0, "topic_epoch": None, "known_epoch": None,
}  # fmt: skip
SHARED_BY_TWO = FREE | {"producers": 2}
TAKEN = FREE | {"producers": 1, "exclusive": "a", "topic_epoch": 3}
WAITED_FOR = SHARED_BY_TWO | {"waiting": 1}
LEFT = FREE | {"topic_epoch": 3}


@pytest.mark.parametrize(
    ("mode", "state", "expected"),
    [
        (AccessMode.SHARED, FREE, Admission.JOIN),
        (AccessMode.SHARED, SHARED_BY_TWO, Admission.JOIN),
        (AccessMode.SHARED, TAKEN, ProducerBusy),
        (AccessMode.SHARED, WAITED_FOR, ProducerBusy),
        (AccessMode.EXCLUSIVE, FREE, Admission.ALONE),
        (AccessMode.EXCLUSIVE, SHARED_BY_TWO, ProducerFenced),
        (AccessMode.EXCLUSIVE, TAKEN, ProducerFenced),
        (AccessMode.EXCLUSIVE, WAITED_FOR, ProducerFenced),
        (AccessMode.EXCLUSIVE, LEFT | {"known_epoch": 3}, Admission.ALONE),
        (AccessMode.EXCLUSIVE, LEFT | {"known_epoch": 2}, ProducerFenced),
        (AccessMode.EXCLUSIVE, LEFT | {"known_epoch": 4}, ProducerFenced),
        (AccessMode.EXCLUSIVE, FREE | {"known_epoch": 4}, Admission.ALONE),
        (AccessMode.WAIT_FOR_EXCLUSIVE, FREE, Admission.ALONE),
        (AccessMode.WAIT_FOR_EXCLUSIVE, SHARED_BY_TWO, Admission.WAIT),
        (AccessMode.WAIT_FOR_EXCLUSIVE, TAKEN, Admission.WAIT),
        (AccessMode.WAIT_FOR_EXCLUSIVE, LEFT | {"known_epoch": 2}, ProducerFenced),
        (AccessMode.EXCLUSIVE_WITH_FENCING, FREE, Admission.ALONE),
        (AccessMode.EXCLUSIVE_WITH_FENCING, SHARED_BY_TWO, Admission.TAKE_OVER),
        (AccessMode.EXCLUSIVE_WITH_FENCING, TAKEN, Admission.TAKE_OVER),
        (AccessMode.WAIT_FOR_EXCLUSIVE, LEFT | {"known_epoch": 4}, ProducerFenced),
        (AccessMode.EXCLUSIVE_WITH_FENCING, TAKEN | {"known_epoch": 2}, ProducerFenced),
        (AccessMode.EXCLUSIVE_WITH_FENCING, TAKEN | {"known_epoch": 4}, ProducerFenced),
    ],
)
def test_the_access_mode_decides_whether_a_producer_is_admitted(
    mode: AccessMode, state: dict[str, Any], expected: Admission | type[Exception]
) -> None:
    if isinstance(expected, Admission):
        assert admission(mode, topic="t", **state) is expected
    else:
        with pytest.raises(expected, match="t "):
            admission(mode, topic="t", **state)


@pytest.mark.parametrize(
    ("mode", "state", "message"),
    [
        (AccessMode.SHARED, TAKEN, "t has the exclusive producer a; wait until it has closed"),
        (
            AccessMode.SHARED,
            WAITED_FOR,
            "t is reserved: a producer waits for exclusive access; close it first",
        ),
        (AccessMode.EXCLUSIVE, TAKEN, "t already has the exclusive producer a"),
        (AccessMode.EXCLUSIVE, FREE | {"producers": 1}, "t already has 1 producer"),
        (AccessMode.EXCLUSIVE, SHARED_BY_TWO, "t already has 2 producers"),
        (
            AccessMode.EXCLUSIVE,
            FREE | {"waiting": 1},
            "t already has 1 producer waiting for exclusive access",
        ),
    ],
)
def test_a_refusal_says_which_producers_are_in_the_way(
    mode: AccessMode, state: dict[str, Any], message: str
) -> None:
    with pytest.raises((ProducerBusy, ProducerFenced)) as refused:
        admission(mode, topic="t", **state)
    assert str(refused.value) == message


@given(st.none() | st.integers(0, 2**63 - 1), st.none() | st.integers(0, 2**64 - 1))
def test_an_epoch_is_stored_only_if_the_topic_counted_to_it(
    topic_epoch: int | None, claimed: int | None
) -> None:
    epoch = next_epoch(topic_epoch, claimed)
    assert 0 <= epoch < 2**63
    if topic_epoch is None:
        assert epoch == 0
    elif claimed == topic_epoch:
        assert epoch == topic_epoch
    else:
        assert epoch == topic_epoch + 1 or topic_epoch == 2**63 - 1
        assert epoch != topic_epoch
