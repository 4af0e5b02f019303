"""A subscription's state in words: a badge and a sentence from its numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Standing", "standing"]

_STILL = 0.05  # messages per second below which a rate counts as nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A subscription's state. `tone` picks the colour and icon: good, calm, warn or bad."""

    badge: str
    tone: str
    sentence: str
    drain_s: float | None  # time until the backlog is empty, at the current rates


def standing(
    *,
    paused: bool,
    backlog_messages: int,
    consumers: int | None,
    rate_in: float | None,
    rate_acked: float | None,
    unacked_messages: int | None,
) -> Standing:
    """Judge by the current numbers only. None means unknown and never counts as 0."""
    if paused:
        return Standing(
            badge="paused",
            tone="warn",
            sentence="An operator paused it: nothing is delivered until it is resumed. Consumers can still ack.",
            drain_s=None,
        )
    if backlog_messages == 0:
        busy = (rate_in or 0) > _STILL
        return Standing(
            badge="keeping up" if busy else "idle",
            tone="good" if busy else "calm",
            sentence="No message waits: every message is acked.",
            drain_s=None,
        )
    if consumers == 0:
        return Standing(
            badge="no consumer",
            tone="bad",
            sentence="No consumer is connected, so nothing is delivered.",
            drain_s=None,
        )
    if consumers is None or rate_acked is None or rate_in is None:
        return Standing(
            badge="unknown", tone="calm", sentence="The broker has not reported yet.", drain_s=None
        )
    net = rate_acked - rate_in
    if rate_acked <= _STILL:
        waiting = " Messages are delivered but not acked." if unacked_messages else ""
        return Standing(
            badge="stuck",
            tone="bad",
            sentence=f"Consumers are connected, but nothing is acked.{waiting}",
            drain_s=None,
        )
    if net > _STILL:
        return Standing(
            badge="draining",
            tone="good",
            sentence="Consumers ack faster than producers publish.",
            drain_s=backlog_messages / net,
        )
    if net < -_STILL and backlog_messages > rate_in * 5:
        return Standing(
            badge="falling behind",
            tone="warn",
            sentence="Producers publish faster than consumers ack.",
            drain_s=None,
        )
    return Standing(
        badge="keeping up", tone="good", sentence="Consumers ack as fast as producers publish.", drain_s=None
    )
