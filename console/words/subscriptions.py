"""Words for the states of subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext_lazy

from broker.models import SubscriptionState

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = [
    "STATE_WORDS",
    "Standing",
    "StateWord",
    "Tone",
    "Verdict",
    "label_of",
    "standing",
    "state_numbered",
    "state_word",
    "tone_of",
    "verdict",
]

StateWord: TypeAlias = Literal[
    "stuck", "falling behind", "paused", "draining", "watching", "keeping up", "idle", "unknown"
]
Tone: TypeAlias = Literal["good", "calm", "warn", "bad"]

STATE_WORDS: Final[tuple[StateWord, ...]] = get_args(StateWord)[:-1]
"""States that the broker reports, with the worst first."""

_WORDS: Final[Mapping[int, StateWord]] = {
    state.value: word for state, word in zip(SubscriptionState, STATE_WORDS, strict=True)
}
_TONES: Final[Mapping[StateWord, Tone]] = {
    "stuck": "bad",
    "falling behind": "warn",
    "paused": "warn",
    "draining": "good",
    "watching": "calm",
    "keeping up": "good",
    "idle": "calm",
    "unknown": "calm",
}
_LABELS: Final[Mapping[StateWord, str]] = {
    "stuck": gettext_noop("stuck"),
    "falling behind": gettext_noop("falling behind"),
    "paused": gettext_noop("paused"),
    "draining": gettext_noop("draining"),
    "watching": gettext_noop("watching"),
    "keeping up": gettext_noop("keeping up"),
    "idle": gettext_noop("idle"),
    "unknown": gettext_noop("unknown"),
}
_SENTENCES: Final[Mapping[StateWord, str]] = {
    "stuck": gettext_noop("Messages wait, and nothing is acked."),
    "falling behind": gettext_noop("More messages arrive than are acked."),
    "paused": gettext_noop(
        "An operator paused the subscription: nothing is delivered until it is resumed. Consumers can still"
        " ack."
    ),
    "draining": gettext_noop("Consumers ack faster than messages arrive."),
    "watching": gettext_noop("The broker has watched the subscription for less than half a minute."),
    "keeping up": gettext_noop("Consumers ack as fast as messages arrive."),
    "idle": gettext_noop("Nothing waits, and hardly anything arrives."),
    "unknown": gettext_noop("The broker has not reported yet."),
}
# The worst state comes first.
_NEEDING_ATTENTION: Final[tuple[tuple[SubscriptionState, StrOrPromise], ...]] = (
    (
        SubscriptionState.STUCK,
        ngettext_lazy(
            "%(number)s subscription is stuck.", "%(number)s subscriptions are stuck.", "subscriptions"
        ),
    ),
    (
        SubscriptionState.FALLING_BEHIND,
        ngettext_lazy(
            "%(number)s subscription is falling behind.",
            "%(number)s subscriptions are falling behind.",
            "subscriptions",
        ),
    ),
    (
        SubscriptionState.PAUSED,
        ngettext_lazy(
            "%(number)s subscription is paused.", "%(number)s subscriptions are paused.", "subscriptions"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A subscription's state and tone (colour and icon)."""

    state: StateWord
    tone: Tone
    sentence: str
    since_ms: int | None
    drain_s: int | None  # None unless the state is "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Sentences about all subscriptions, and their tone (colour and icon)."""

    text: str
    tone: Tone


def state_word(state: int | None) -> StateWord:
    """Return the word for a stored state. If `state` is None, no broker has reported a state."""
    return "unknown" if state is None else _WORDS[state]


def label_of(word: StateWord) -> str:
    """Return a state's word in the reader's language."""
    return _(_LABELS[word])


def state_numbered(word: str) -> int:
    """Return the number under which a state is stored, or 0 for "unknown" and for any other word."""
    return next((number for number, known in _WORDS.items() if known == word), 0)


def tone_of(state: int | None) -> Tone:
    """Return the tone of a stored state."""
    return _TONES[state_word(state)]


def standing(
    *,
    state: int | None,
    since_ms: int | None,
    drain_s: int | None,
    backlog_messages: int,
    consumers: int | None,
    unacked_messages: int | None,
) -> Standing:
    """Describe a stored state."""
    word = state_word(state)
    sentence = _SENTENCES[word]
    if consumers == 0 and word == "stuck":
        sentence = gettext_noop("Messages wait, and no consumer is connected.")
    elif consumers == 0 and word == "keeping up" and backlog_messages:
        sentence = gettext_noop(
            "No consumer is connected. If no client pulls, the subscription will soon be stuck."
        )
    elif word == "stuck" and unacked_messages:
        sentence = gettext_noop("Messages are delivered, and nothing is acked.")
    elif word == "idle" and backlog_messages:
        sentence = gettext_noop("The messages that wait are delayed or have just arrived.")
    return Standing(
        state=word,
        tone=_TONES[word],
        sentence=_(sentence),
        since_ms=since_ms or None,
        # A stuck subscription may have a partition that reports a drain time.
        drain_s=drain_s if word == "draining" else None,
    )


def verdict(counts: Mapping[int, tuple[int, str]]) -> Verdict:
    """Return sentences about the subscriptions that need attention.

    `counts` maps each state to the number of its subscriptions, as an integer and as text.
    """
    bad = [(state, words) for state, words in _NEEDING_ATTENTION if counts.get(state, (0, ""))[0]]
    if not bad:
        watched, number = counts.get(SubscriptionState.WATCHING, (0, ""))
        if watched:
            words = _("No subscription is known to be stuck: the broker has not judged {number} of them yet.")
            return Verdict(text=words.format(number=number), tone="calm")
        return Verdict(text=_("No subscription is stuck."), tone="good")
    return Verdict(
        text=" ".join(
            str(words % {"subscriptions": counts[state][0], "number": counts[state][1]})
            for state, words in bad
        ),
        tone=tone_of(bad[0][0].value),
    )
