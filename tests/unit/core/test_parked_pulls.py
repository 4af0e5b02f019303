"""The table of parked pulls, each of which is answered exactly once, as in RocketMQ's long polling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.parked_pulls import FULL_CHECK_MS, Matches, ParkedRequest, ParkedRequests, QueueKey

KEY = QueueKey("persistent://public/default/t", 0)
OTHER = QueueKey("persistent://public/default/a@b", 3)


def request(
    offset: int = 0,
    *,
    key: QueueKey = KEY,
    parked_ms: int = 0,
    park_ms: int = 15_000,
    matches: Matches | None = None,
) -> ParkedRequest:
    return ParkedRequest(key=key, offset=offset, parked_ms=parked_ms, park_ms=park_ms, matches=matches)


def parked(*requests: ParkedRequest) -> ParkedRequests[ParkedRequest]:
    table: ParkedRequests[ParkedRequest] = ParkedRequests()
    for each in requests:
        table.park(each)
    return table


def arrivals(*tags: str) -> Iterable[Mapping[str, str]]:
    return [{"TAGS": tag} for tag in tags]


def only(tag: str) -> Matches:
    return lambda properties: properties.get("TAGS") == tag


def never() -> int:
    raise AssertionError("the end was read again")


@pytest.mark.row("S3.4")
def test_a_parked_record_knows_its_offset_and_due_time() -> None:
    each = request(7, parked_ms=100, park_ms=2_000, matches=only("A"))
    assert (each.offset, each.parked_ms, each.park_ms, each.due_ms) == (7, 100, 2_000, 2_100)


@pytest.mark.row("S3.5")
def test_many_pulls_wait_under_one_key() -> None:
    table = parked(*(request(5) for _ in range(10)), request(5, key=OTHER))
    assert len(table) == 11
    assert {key: len(waiting) for key, waiting in table.queues().items()} == {KEY: 10, OTHER: 1}


@pytest.mark.row("S3.6")
def test_keys_with_separators_do_not_collide() -> None:
    table = parked(request(5, key=OTHER))
    assert table.check(FULL_CHECK_MS, lambda _: 6, lambda *_: None) != []


@pytest.mark.row("S3.9")
def test_two_notifications_cannot_wake_one_request() -> None:
    table = parked(request(5))
    assert len(table.notify(KEY, 6, 1, newest_again=never)) == 1
    assert table.notify(KEY, 6, 1, newest_again=never) == []
    assert table.pop_due(10**9) == []


@pytest.mark.row("S3.10")
def test_a_stale_end_is_read_again() -> None:
    table = parked(request(5))
    assert len(table.notify(KEY, 5, 1, newest_again=lambda: 6)) == 1


@pytest.mark.row("S3.11")
def test_a_filter_that_does_not_match_keeps_a_pull_parked() -> None:
    table = parked(request(5, matches=only("A")))
    assert table.notify(KEY, 6, 1, newest_again=never, arrived=lambda _: arrivals("B")) == []
    assert len(table.notify(KEY, 7, 1, newest_again=never, arrived=lambda _: arrivals("B", "A"))) == 1


@pytest.mark.row("S3.11")
def test_a_notice_of_the_timer_answers_a_pull_with_any_filter() -> None:
    table = parked(request(5, matches=only("A")))
    assert len(table.notify(KEY, 6, 1, newest_again=never)) == 1


@pytest.mark.row("S3.12")
def test_a_pull_whose_time_is_over_is_answered() -> None:
    table = parked(request(5, parked_ms=1_000, park_ms=2_000))
    assert table.notify(KEY, 5, 2_999, newest_again=lambda: 5) == []
    assert len(table.notify(KEY, 5, 3_000, newest_again=lambda: 5)) == 1
    table = parked(request(5, parked_ms=1_000, park_ms=2_000))
    assert table.pop_due(2_999) == []
    assert len(table.pop_due(3_000)) == 1


@pytest.mark.row("S3.13")
def test_an_offset_ahead_of_the_end_stays() -> None:
    table = parked(request(9))
    assert table.notify(KEY, 6, 1, newest_again=lambda: 6) == []
    assert len(table) == 1


@pytest.mark.row("S3.7")
def test_every_queue_is_checked_every_five_seconds() -> None:
    table = parked(request(5, park_ms=60_000), request(5, key=OTHER, park_ms=60_000))
    assert len(table.check(FULL_CHECK_MS, lambda _: 5, lambda *_: None)) == 0
    assert table.check(2 * FULL_CHECK_MS - 1, lambda _: 6, lambda *_: None) == []
    assert len(table.check(2 * FULL_CHECK_MS, lambda _: 6, lambda *_: None)) == 2


@pytest.mark.row("S3.7")
def test_the_first_check_comes_five_seconds_after_the_first_request() -> None:
    table = parked(request(5, parked_ms=90_000, park_ms=60_000))
    assert table.next_check_ms() == 95_000
    table.park(request(5, parked_ms=93_000, park_ms=60_000))
    assert table.next_check_ms() == 95_000
    table.take_all()
    table.park(request(5, parked_ms=200_000, park_ms=60_000))
    assert table.check(204_999, lambda _: 6, lambda *_: None) == []
    assert len(table.check(205_000, lambda _: 6, lambda *_: None)) == 1


@pytest.mark.row("S3.8")
def test_one_broken_queue_does_not_stop_the_others() -> None:
    table = parked(request(5), request(5, key=OTHER))
    told: list[QueueKey] = []

    def end_of(key: QueueKey) -> int:
        if key == KEY:
            raise RuntimeError("broken")
        return 6

    (woken,) = table.check(FULL_CHECK_MS, end_of, lambda key, _: told.append(key))
    assert (woken.key, told) == (OTHER, [KEY])
    assert KEY in table


def test_the_next_check_is_never_later_than_the_first_due() -> None:
    table = parked(request(5, park_ms=900), request(5, park_ms=70_000))
    assert table.next_check_ms() == 900
    table.check(900, lambda _: 5, lambda *_: None)
    assert table.next_check_ms() == FULL_CHECK_MS
    table.take_all()
    assert table.next_check_ms() is None


@pytest.mark.row("S3.21")
def test_all_parked_pulls_are_taken_at_a_stop() -> None:
    table = parked(*(request(5) for _ in range(99)), request(5, key=OTHER))
    assert len(table.take_all()) == 100
    assert len(table) == 0


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("park"), st.integers(0, 5), st.sampled_from(["", "A", "B"]), st.integers(1, 4000)),
        st.tuples(st.just("arrive"), st.sampled_from(["A", "B"])),
        st.tuples(st.just("wait"), st.integers(1, 6000)),
        st.tuples(st.just("gone"), st.integers(0, 20)),
    ),
    max_size=40,
)


@pytest.mark.row("I24")
@given(EVENTS)
def test_each_request_comes_out_once_in_time_and_never_for_a_mismatch(
    events: list[tuple[object, ...]],
) -> None:
    table: ParkedRequests[ParkedRequest] = ParkedRequests()
    now_ms, log = 0, list[str]()
    waiting: list[ParkedRequest] = []
    out: list[ParkedRequest] = []

    def take(found: list[ParkedRequest]) -> None:
        for each in found:
            assert each in waiting, "it was not parked, or came out twice"
            waiting.remove(each)
            out.append(each)

    for event in events:
        match event:
            case ("park", int(back), str(tag), int(park_ms)):
                each = request(
                    len(log) + back // 4,
                    parked_ms=now_ms,
                    park_ms=park_ms,
                    matches=only(tag) if tag else None,
                )
                waiting.append(each)
                table.park(each)
            case ("arrive", str(tag)):
                log.append(tag)
                before = list(waiting)
                take(
                    table.notify(
                        KEY,
                        len(log),
                        now_ms,
                        newest_again=lambda: len(log),
                        arrived=lambda at: arrivals(*log[at:]),
                    )
                )
                for each in before:
                    wanted = any(
                        each.matches is None or each.matches(found) for found in arrivals(*log[each.offset :])
                    )
                    assert (each not in waiting) == (wanted or now_ms >= each.due_ms)
            case ("wait", int(delay_ms)):
                now_ms += delay_ms
                take(table.check(now_ms, lambda _: len(log), lambda *_: None))
                assert all(each.due_ms > now_ms for each in waiting)
            case ("gone", int(index)):
                if index < len(waiting):
                    assert table.discard(waiting.pop(index))
        assert len(table) == len(waiting)
    take(table.take_all())
    assert waiting == []


class _Compared(ParkedRequest):
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Compared.compared += 1
        return self is other

    __hash__ = object.__hash__


def test_a_request_leaves_the_table_without_a_look_at_the_others() -> None:
    """Thousands of pulls of one topic may time out together."""
    requests = [_Compared(key=KEY, offset=0, parked_ms=0, park_ms=5, matches=None) for _ in range(100)]
    table = parked(*requests)
    assert len(table.pop_due(100)) == 100
    assert _Compared.compared < 100
