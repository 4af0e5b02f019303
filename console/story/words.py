"""The delivery story of a message in words: what happened, and which events are recorded at all."""

from __future__ import annotations

from typing import Final

from console.story.told import Kept, StoryLine
from console.words.acts import KINDS
from console.words.numerals import span

__all__ = ["line_after", "line_before", "line_words", "recorded"]

# What comes before the consumer's name, and what comes after it.
_EVENTS: Final = {
    "delivered": ("delivered to", ""),
    "acked": ("acked by", ""),
    "partly_acked": ("some messages of its batch acked by", ""),
    "asked_again": ("given back by", "a negative ack, or its client's ack timeout"),
    "negatively_acked": ("given back by", "negative ack"),
    "timed_out": ("taken back from", "ack timeout"),
    "consumer_left": ("taken back from", "the consumer left"),
    "consumer_switched": ("taken back from", "another consumer became active"),
    "taken_back": ("taken back from", "an operator asked for redelivery"),
    "dead_lettered": ("sent to the dead letters for", ""),
    "retry_lettered": ("sent to the retry letters for", ""),
    "expired": ("acked by the broker", "its time to live was over"),
    "corrupt": ("acked by the broker and not delivered", "the entry is damaged"),
    "marker": ("acked by the broker and not delivered", "a marker without a message"),
    "filtered": ("acked by the broker and not delivered", "an entry filter rejected it"),
    "passed": ("the cursor was moved past it", ""),
    "brought_back": ("the cursor was moved back before it", ""),
}
_TAKEN_OUT: Final = {"send_to_dead_letters": "sent to the dead letters by an operator"}
_RECORDED: Final = {
    "off": (
        "Deliveries and acks are not recorded here: the policy delivery_story is off. Acts are told from the act log."
    ),
    "redelivered": (
        "Only messages that came back are recorded, from the delivery before their first return to their ack: the"
        " policy delivery_story is redelivered. What is not told here did not come back, is older than {kept}, or"
        " happened in a process of the broker that ended before it had stored it."
    ),
    "all": (
        "Every delivery and ack is recorded: the policy delivery_story is all. What is not told here is older than"
        " {kept} or than the policy, or happened in a process of the broker that ended before it had stored it."
    ),
}


def line_before(line: StoryLine) -> str:
    """Say what happened, up to the name of the consumer."""
    if line.event == "taken_out":
        return _TAKEN_OUT.get(line.act_kind, "skipped by an operator")
    return _EVENTS[line.event][0]


def line_after(line: StoryLine) -> str:
    """Say the rest, "" if the name is the end of the sentence."""
    if line.act_id is not None:
        return f"{KINDS.get(line.act_kind, line.act_kind)} by {line.who}"
    if line.event == "delivered" and line.redelivery_count:
        return f"redelivery count {line.redelivery_count}"
    return _EVENTS[line.event][1]


def line_words(line: StoryLine) -> str:
    """Say all of it in one line of plain text."""
    words = f"{line_before(line)} {line.consumer}".rstrip()
    details = [each for each in (line.address, line_after(line), line.topic) if each]
    return f"{words} ({', '.join(details)})" if details else words


def recorded(kept: Kept) -> str:
    """Say which events the story can tell."""
    return _RECORDED[kept.mode].format(kept=span(kept.keep_ms / 1000))
