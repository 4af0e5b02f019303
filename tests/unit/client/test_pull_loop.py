"""The pull client's loop for one queue, against a model of a broker's queue."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.consuming.pull_loop import EMPTY_MS, FAILED_MS, FULL_MS, PullLimits, PullLoop, PullStep
from vela.wire.message_id import MessageId
from vela.wire.pull.codes import PullCode
from vela.wire.pull.reading import ReadAnswer, ReadMessage


def message(offset: int, size: int = 1) -> ReadMessage:
    return ReadMessage(offset, MessageId(1, offset), None, None, {}, 1, 0, bytes(size))


def answer(
    code: PullCode, next_begin: int, *messages: ReadMessage, least: int = 0, most: int = 10_000
) -> ReadAnswer:
    return ReadAnswer(
        code=code,
        next_begin_offset=next_begin,
        min_offset=least,
        max_offset=most,
        unreadable_messages=0,
        messages=messages,
    )


def found(loop: PullLoop, count: int, size: int = 1) -> PullStep:
    """Answer the loop with the next `count` messages, and return the loop's next step."""
    begin = loop.next_offset
    messages = [message(offset, size) for offset in range(begin, begin + count)]
    return loop.answered(answer(PullCode.SUCCESS, begin + count, *messages), waited_ms=5)


def begun(offset: int = 0, limits: PullLimits | None = None, interval_ms: int = 0) -> PullLoop:
    return PullLoop(offset, limits=limits or PullLimits(), pull_interval_ms=interval_ms)


@pytest.mark.row("S3.1")
@pytest.mark.parametrize("interval_ms", [0, 250])
def test_after_messages_the_next_pull_goes_out_at_once_or_after_the_interval(interval_ms: int) -> None:
    loop = begun(interval_ms=interval_ms)
    asked = []
    for count in (32, 32, 32, 4):
        asked.append(loop.next_offset)
        assert found(loop, count).pause_ms == interval_ms
        assert loop.wait_ms() == 0
    assert asked == [0, 32, 64, 96]
    assert loop.next_offset == 100


@pytest.mark.row("S3.1")
def test_after_an_empty_answer_the_next_pull_goes_out_at_once() -> None:
    loop = begun(7, interval_ms=250)
    step = loop.answered(answer(PullCode.PULL_NOT_FOUND, 7), waited_ms=15_000)
    assert step == PullStep((), 0, None)
    assert loop.next_offset == 7


@pytest.mark.row("S3.1")
def test_after_messages_that_do_not_match_the_next_pull_goes_out_at_once() -> None:
    loop = begun(7)
    step = loop.answered(answer(PullCode.PULL_RETRY_IMMEDIATELY, 39), waited_ms=1)
    assert step == PullStep((), 0, None)
    assert (loop.next_offset, loop.commit_offset) == (39, 39)


@pytest.mark.parametrize("code", [PullCode.PULL_NOT_FOUND, PullCode.PULL_RETRY_IMMEDIATELY])
def test_an_empty_answer_that_comes_at_once_is_not_requested_again_and_again(code: PullCode) -> None:
    """A broker parks no pulls if it stops or long polling is off. The loop could ask it a thousand times a second."""
    loop = begun(7)
    assert loop.answered(answer(code, 7), waited_ms=1).pause_ms == EMPTY_MS


def test_an_illegal_offset_is_corrected_and_pulled_messages_become_invalid() -> None:
    loop = begun(100)
    found(loop, 5)
    step = loop.answered(answer(PullCode.PULL_OFFSET_MOVED, 40, most=40), waited_ms=1)
    assert step == PullStep((), 0, 105)
    assert (loop.next_offset, loop.commit_offset, loop.epoch, len(loop)) == (40, 40, 1, 0)
    assert not loop.finish(101, 0)
    found(loop, 100)
    assert not loop.finish(101, 0)
    assert loop.holds(101, 1)
    assert loop.finish(101, 1)


@pytest.mark.parametrize(
    ("limits", "count", "size"),
    [
        (PullLimits(messages=10), 11, 1),
        (PullLimits(size_bytes=10), 1, 11),
        (PullLimits(span=10), 11, 1),
    ],
)
def test_flow_is_limited_by_messages_bytes_and_span(limits: PullLimits, count: int, size: int) -> None:
    loop = begun(limits=limits)
    found(loop, count, size)
    assert loop.wait_ms() == FULL_MS
    for offset in range(count):
        loop.finish(offset, 0)
    assert loop.wait_ms() == 0


def test_a_stuck_message_stops_the_commit_and_finally_the_pulls() -> None:
    loop = begun()
    while not loop.wait_ms():
        begin = loop.next_offset
        found(loop, 32)
        for offset in range(max(begin, 1), loop.next_offset):
            loop.finish(offset, 0)
    assert loop.commit_offset == 0
    assert 2000 < loop.next_offset <= 2032
    loop.finish(0, 0)
    assert (loop.commit_offset, loop.wait_ms()) == (loop.next_offset, 0)


def test_defaults_equal_those_of_rocketmq() -> None:
    assert PullLimits() == PullLimits(messages=1000, size_bytes=104_857_600, span=2000)
    assert (FULL_MS, FAILED_MS) == (50, 3000)


@dataclass
class Queue:
    """A broker's queue. It grows at its end and is trimmed at its beginning. Every third message matches."""

    low: int = 0
    end: int = 0
    given: list[int] = field(default_factory=list)

    def pull(self, offset: int, most: int) -> ReadAnswer:
        if not self.low <= offset <= self.end:
            moved = self.low if offset < self.low else self.end
            return answer(PullCode.PULL_OFFSET_MOVED, moved, least=self.low, most=self.end)
        if offset == self.end:
            return answer(PullCode.PULL_NOT_FOUND, offset, least=self.low, most=self.end)
        after = min(self.end, offset + most)
        matching = [message(each) for each in range(offset, after) if each % 3 == 0]
        code = PullCode.SUCCESS if matching else PullCode.PULL_RETRY_IMMEDIATELY
        return answer(code, after, *matching, least=self.low, most=self.end)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 20)),
            st.tuples(st.just("pull"), st.integers(1, 8)),
            st.tuples(st.just("finish"), st.integers(0, 50)),
            st.tuples(st.just("trim"), st.integers(1, 5)),
            st.tuples(st.just("crash"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_every_kept_match_is_delivered_and_no_commit_passes_an_unfinished_message(
    steps: list[tuple[str, int]],
) -> None:
    queue, limits = Queue(), PullLimits(messages=20, span=40)
    loop = begun(limits=limits)
    unfinished: list[tuple[int, int]] = []
    finished: set[int] = set()
    for kind, number in steps:
        if kind == "publish":
            queue.end += number
        elif kind == "trim":
            queue.low = min(queue.end, queue.low + number)
        elif kind == "crash":
            loop, unfinished = begun(loop.commit_offset, limits), []
        elif kind == "finish" and unfinished:
            offset, epoch = unfinished.pop(number % len(unfinished))
            assert loop.finish(offset, epoch)
            assert not loop.finish(offset, epoch)
            finished.add(offset)
        elif kind == "pull" and not loop.wait_ms():
            assert len(loop) <= limits.messages
            before = loop.next_offset
            step = loop.answered(queue.pull(before, number), waited_ms=100)
            if step.moved_from is not None:
                assert step.moved_from == before
                unfinished = []
            else:
                given = [each.offset for each in step.messages]
                assert given == [each for each in range(before, loop.next_offset) if each % 3 == 0]
                unfinished += [(each, loop.epoch) for each in given]
        assert len(loop) == len(unfinished)
        assert loop.commit_offset == min((offset for offset, _ in unfinished), default=loop.next_offset)
        kept = {each for each in range(queue.low, min(loop.commit_offset, queue.end)) if each % 3 == 0}
        assert kept <= finished  # no matching message below the committed offset was left out
