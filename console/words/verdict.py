"""The overview's first line: how many subscriptions need attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from broker.models import SubscriptionState
from console.words.subscriptions import Tone, tone_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["Verdict", "verdict"]

# The states that need an operator's attention, the worst first.
_SENTENCES: Final[tuple[tuple[SubscriptionState, StrOrPromise], ...]] = (
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
class Verdict:
    """Sentences, and the tone for their colour and icon."""

    text: str
    tone: Tone


def verdict(counts: Mapping[int, tuple[int, str]]) -> Verdict:
    """Return sentences about the subscriptions that need attention, or one that all is well.

    `counts` has for each state the number of subscriptions, and that number as text.
    """
    bad = [(state, words) for state, words in _SENTENCES if counts.get(state, (0, ""))[0]]
    if not bad:
        return Verdict(text=_("Every subscription gets its messages."), tone="good")
    return Verdict(
        text=" ".join(
            str(words % {"subscriptions": counts[state][0], "number": counts[state][1]})
            for state, words in bad
        ),
        tone=tone_of(bad[0][0].value),
    )
