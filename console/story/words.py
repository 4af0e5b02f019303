"""Words for the delivery story of a message.

The story consists of recorded events and of acts. An act is a logged change, such as a cursor reset.
"""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.story.told import Kept, StoryLine
from console.words.acts import KINDS
from console.words.numerals import span

__all__ = ["line_after", "line_before", "line_words", "recorded"]

# For each event, the words before and after the consumer's name
_EVENTS: Final = {
    "delivered": (gettext_noop("delivered to"), ""),
    "acked": (gettext_noop("acked by"), ""),
    "partly_acked": (gettext_noop("some messages of its batch acked by"), ""),
    "asked_again": (
        gettext_noop("given back by"),
        gettext_noop("a negative ack, or its client's ack timeout"),
    ),
    "negatively_acked": (gettext_noop("given back by"), gettext_noop("negative ack")),
    "timed_out": (gettext_noop("taken back from"), gettext_noop("ack timeout")),
    "consumer_left": (gettext_noop("taken back from"), gettext_noop("the consumer left")),
    "consumer_switched": (gettext_noop("taken back from"), gettext_noop("another consumer became active")),
    "taken_back": (gettext_noop("taken back from"), gettext_noop("an operator asked for redelivery")),
    "dead_lettered": (gettext_noop("sent to the dead letters for"), ""),
    "retry_lettered": (gettext_noop("sent to the retry letters for"), ""),
    "expired": (gettext_noop("acked by the broker"), gettext_noop("its time to live had passed")),
    "corrupt": (gettext_noop("acked by the broker and not delivered"), gettext_noop("the entry is damaged")),
    "marker": (
        gettext_noop("acked by the broker and not delivered"),
        gettext_noop("a marker without a message"),
    ),
    "filtered": (
        gettext_noop("acked by the broker and not delivered"),
        gettext_noop("an entry filter rejected it"),
    ),
    "passed": (gettext_noop("the cursor was moved past it"), ""),
    "brought_back": (gettext_noop("the cursor was moved back before it"), ""),
}
_SKIPPED: Final = gettext_noop("skipped by an operator")
_TAKEN_OUT: Final = {"send_to_dead_letters": gettext_noop("sent to the dead letters by an operator")}
_UNDONE: Final = gettext_noop("brought back by an undo")
_RECORDED: Final = {
    "off": (
        gettext_noop(
            "Deliveries and acks are not recorded here: the policy delivery_story is off. Acts come from the act log."
        )
    ),
    "redelivered": (
        gettext_noop(
            "Only messages that came back are recorded, from the delivery before their first return to their ack: the"
            " policy delivery_story is redelivered. Events are missing here if the message did not come back, if they"
            " are older than {kept}, or if the broker ended before it stored them."
        )
    ),
    "all": (
        gettext_noop(
            "Every delivery and ack is recorded: the policy delivery_story is all. Events are missing here if they are"
            " older than {kept} or than the policy, or if the broker ended before it stored them."
        )
    ),
}


def line_before(line: StoryLine) -> str:
    """Return the words that precede the consumer's name."""
    if line.event == "taken_out":
        return _(_TAKEN_OUT.get(line.act_kind, _SKIPPED))
    if line.event == "brought_back" and line.act_kind == "undo":
        return _(_UNDONE)
    return _(_EVENTS[line.event][0])


def line_after(line: StoryLine) -> str:
    """Return the words that follow the consumer's name."""
    if line.act_id is not None:
        return _("{act} by {who}").format(act=_(KINDS.get(line.act_kind, line.act_kind)), who=line.who)
    if line.event == "delivered" and line.redelivery_count:
        return _("redelivery count {number}").format(number=line.redelivery_count)
    return _(_EVENTS[line.event][1])


def line_words(line: StoryLine) -> str:
    """Return an event or act as one line of plain text."""
    words = f"{line_before(line)} {line.consumer}".rstrip()
    details = [each for each in (line.address, line_after(line), line.topic) if each]
    return f"{words} ({', '.join(details)})" if details else words


def recorded(kept: Kept) -> str:
    """Return the sentences that say which events are recorded."""
    return _(_RECORDED[kept.mode]).format(kept=span(kept.keep_ms / 1000))
