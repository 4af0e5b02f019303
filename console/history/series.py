"""Compute the steps of a chart from stored points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from console.history.windows import Frame
from vela.wire.latency_counts import percentile_ms, summed

__all__ = ["Level", "Reading", "Step", "steps", "summed_steps", "thinned"]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A stored point of a subscription, or of a topic if `subscription_id` is 0."""

    at_ms: int
    topic_id: int
    subscription_id: int
    messages_in: int | None  # None for a subscription
    bytes_in: int | None  # None for a subscription
    messages_out: int
    messages_acked: int
    messages_redelivered: int
    backlog_before: int | None
    backlog: int | None
    backlog_most: int | None
    stored_bytes: int | None  # None for a subscription
    # Counts of acks by latency, or None for a topic.
    ack_latencies: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The backlog and size that a chart shows if it has no points."""

    backlog_messages: int | None = None
    stored_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The numbers of one step of a chart. Rates are per second."""

    at_ms: int
    seconds: float | None  # The time that the rates cover
    message_rate_in: float | None
    byte_rate_in: float | None
    message_rate_out: float | None
    message_rate_acked: float | None
    message_rate_redelivered: float | None
    backlog_messages: int | None  # The backlog at the end of the step
    backlog_most_messages: int | None
    stored_bytes: int | None  # The size at the end of the step
    ack_latencies: Sequence[int] | None

    @property
    def ack_p50_ms(self) -> int | None:
        """The median time from delivery to ack, or None if nothing was acked."""
        return percentile_ms(self.ack_latencies or (), 0.5)

    @property
    def ack_p95_ms(self) -> int | None:
        """The 95th percentile of the time from delivery to ack."""
        return percentile_ms(self.ack_latencies or (), 0.95)

    @property
    def ack_p99_ms(self) -> int | None:
        """The 99th percentile of the time from delivery to ack."""
        return percentile_ms(self.ack_latencies or (), 0.99)


def steps(
    frame: Frame,
    own: Iterable[Reading],
    topic: Iterable[Reading],
    *,
    now: Level,
    known_from_ms: int = 0,
    known_until_ms: int | None = None,
    unread: Sequence[tuple[int, int]] = (),
) -> tuple[Step, ...]:
    """Return every step of the frame, oldest first.

    The points in `topic` give the incoming rates. A step without a point in `own` keeps the backlog and size of the
    previous step. The numbers are unknown in these steps:

    - Steps that begin at or after `known_until_ms`.
    - Steps that end at or before `known_from_ms` and have no point.
    - Steps that overlap a range in `unread`.
    """
    by_step = _by_step(frame, own)
    ins = _by_step(frame, topic)
    is_read = _read_steps(frame, unread)
    backlog, stored_bytes = _level(by_step, is_read, now)
    ends_ms = frame.to_ms if known_until_ms is None else min(frame.to_ms, known_until_ms)
    found = []
    for number, readings in enumerate(by_step):
        at_ms = frame.from_ms + number * frame.step_ms
        if not is_read[number]:
            found.append(_unknown(at_ms))
            backlog, stored_bytes = _level(by_step[number + 1 :], is_read[number + 1 :], now)
            continue
        is_early = at_ms + frame.step_ms <= known_from_ms and not readings
        if is_early or (known_until_ms is not None and at_ms >= known_until_ms):
            found.append(_unknown(at_ms))
            continue
        most = backlog
        for reading in readings:
            most = _most(most, reading.backlog_most)
            backlog = reading.backlog
            stored_bytes = reading.stored_bytes
        seconds = (min(at_ms + frame.step_ms, ends_ms) - at_ms) / 1000
        found.append(
            Step(
                at_ms=at_ms,
                seconds=seconds,
                message_rate_in=sum(each.messages_in or 0 for each in ins[number]) / seconds,
                byte_rate_in=sum(each.bytes_in or 0 for each in ins[number]) / seconds,
                message_rate_out=sum(each.messages_out for each in readings) / seconds,
                message_rate_acked=sum(each.messages_acked for each in readings) / seconds,
                message_rate_redelivered=sum(each.messages_redelivered for each in readings) / seconds,
                backlog_messages=backlog,
                backlog_most_messages=most,
                stored_bytes=stored_bytes,
                ack_latencies=_summed(each.ack_latencies for each in readings),
            )
        )
    return tuple(found)


def summed_steps(series: Sequence[Sequence[Step]]) -> tuple[Step, ...]:
    """Add up the known numbers of several series, step by step."""
    return tuple(
        Step(
            at_ms=together[0].at_ms,
            seconds=max((step.seconds for step in together if step.seconds is not None), default=None),
            message_rate_in=_sum(step.message_rate_in for step in together),
            byte_rate_in=_sum(step.byte_rate_in for step in together),
            message_rate_out=_sum(step.message_rate_out for step in together),
            message_rate_acked=_sum(step.message_rate_acked for step in together),
            message_rate_redelivered=_sum(step.message_rate_redelivered for step in together),
            backlog_messages=_sum(step.backlog_messages for step in together),
            backlog_most_messages=_sum(step.backlog_most_messages for step in together),
            stored_bytes=_sum(step.stored_bytes for step in together),
            ack_latencies=_summed(step.ack_latencies for step in together),
        )
        for together in zip(*series, strict=True)
    )


def thinned(found: Sequence[Step], most: int) -> tuple[Step, ...]:
    """Join neighbouring steps if there are too many."""
    by = -(-len(found) // most)
    return tuple(_joined(found[at : at + by]) for at in range(0, len(found), by))


def _joined(found: Sequence[Step]) -> Step:
    first, last = found[0], found[-1]
    seconds = sum(step.seconds or 0 for step in found) or None

    def average(rate: Callable[[Step], float | None]) -> float | None:
        return (
            None
            if seconds is None
            else sum((rate(step) or 0) * (step.seconds or 0) for step in found) / seconds
        )

    return Step(
        at_ms=first.at_ms,
        seconds=seconds,
        message_rate_in=average(lambda step: step.message_rate_in),
        byte_rate_in=average(lambda step: step.byte_rate_in),
        message_rate_out=average(lambda step: step.message_rate_out),
        message_rate_acked=average(lambda step: step.message_rate_acked),
        message_rate_redelivered=average(lambda step: step.message_rate_redelivered),
        backlog_messages=last.backlog_messages,
        backlog_most_messages=max(
            (step.backlog_most_messages for step in found if step.backlog_most_messages is not None),
            default=None,
        ),
        stored_bytes=last.stored_bytes,
        ack_latencies=_summed(step.ack_latencies for step in found),
    )


def _summed(counts: Iterable[Sequence[int] | None]) -> Sequence[int] | None:
    known = [each for each in counts if each]
    return summed(known) if known else None


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _by_step(frame: Frame, readings: Iterable[Reading]) -> list[list[Reading]]:
    by_step: list[list[Reading]] = [[] for _ in range(frame.window.steps)]
    for reading in sorted(readings, key=lambda reading: reading.at_ms):
        number = (reading.at_ms - frame.from_ms) // frame.step_ms
        if 0 <= number < len(by_step):
            by_step[number].append(reading)
    return by_step


def _read_steps(frame: Frame, unread: Sequence[tuple[int, int]]) -> list[bool]:
    begins_ms = (frame.from_ms + number * frame.step_ms for number in range(frame.window.steps))
    return [
        not any(from_ms < begin_ms + frame.step_ms and begin_ms < to_ms for from_ms, to_ms in unread)
        for begin_ms in begins_ms
    ]


def _level(
    by_step: Sequence[Sequence[Reading]], is_read: Sequence[bool], now: Level
) -> tuple[int | None, int | None]:
    for readings, all_read in zip(by_step, is_read, strict=True):
        if not all_read:
            return None, None
        if readings:
            return readings[0].backlog_before, None
    return now.backlog_messages, now.stored_bytes


def _most(first: int | None, second: int | None) -> int | None:
    known = [each for each in (first, second) if each is not None]
    return max(known, default=None)


def _unknown(at_ms: int) -> Step:
    return Step(
        at_ms=at_ms,
        seconds=None,
        message_rate_in=None,
        byte_rate_in=None,
        message_rate_out=None,
        message_rate_acked=None,
        message_rate_redelivered=None,
        backlog_messages=None,
        backlog_most_messages=None,
        stored_bytes=None,
        ack_latencies=None,
    )
