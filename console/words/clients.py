"""Flags that name problems of connected clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

__all__ = ["Flag", "flag_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A word for a problem, and a sentence that explains the problem."""

    word: str
    tone: str
    sentence: str

    @property
    def mark(self) -> str:
        """The symbol before the word."""
        return "✕" if self.tone == "bad" else "▲"


_FLAGS: Final[Mapping[str, Flag]] = {
    "blocked": Flag(
        word=gettext_noop("blocked"),
        tone="bad",
        sentence=gettext_noop(
            "It has as many unacked messages as the limit allows, and gets no more until half of them are acked."
        ),
    ),
    "not-reading": Flag(
        word=gettext_noop("not reading"),
        tone="bad",
        sentence=gettext_noop("Its connection accepts no bytes: a slow network, or a client that hangs."),
    ),
    "ack-less": Flag(
        word=gettext_noop("acks nothing"),
        tone="bad",
        sentence=gettext_noop("It has had messages for 20 s or longer, and acks none of them."),
    ),
    "silent": Flag(
        word=gettext_noop("silent"),
        tone="warn",
        sentence=gettext_noop(
            "It asks for no messages, and has done nothing for 10 s or longer: its queue is full, or its"
            " application does not receive."
        ),
    ),
    "hoarding": Flag(
        word=gettext_noop("hoarding"),
        tone="warn",
        sentence=gettext_noop(
            "It has nearly all unacked messages of its subscription in its queue, while another consumer has few"
            " or none."
        ),
    ),
    "old": Flag(
        word=gettext_noop("old client"),
        tone="warn",
        sentence=gettext_noop(
            "Its library speaks a version of the protocol below 12: it is not notified which consumer is active,"
            " and below 4 it cannot read batches."
        ),
    ),
    "refused": Flag(
        word=gettext_noop("refused"),
        tone="bad",
        sentence=gettext_noop("The broker refused a message of this producer."),
    ),
}


def flag_named(name: str) -> Flag:
    """Return a flag in the reader's language."""
    flag = _FLAGS[name]
    return replace(flag, word=_(flag.word), sentence=_(flag.sentence))
