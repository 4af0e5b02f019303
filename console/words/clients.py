"""What is wrong with a connected client, in words: one flag each, with the mark that goes with its colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["FLAGS", "Flag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag as pages show it."""

    word: str
    tone: str  # warn or bad
    sentence: str

    @property
    def mark(self) -> str:
        """Return the sign that stands before the word, so that colour is never the only difference."""
        return "✕" if self.tone == "bad" else "▲"


FLAGS: Final[Mapping[str, Flag]] = {
    "blocked": Flag(
        word="blocked",
        tone="bad",
        sentence="It has as many unacked messages as the limit allows, and gets no more until it acks some.",
    ),
    "not-reading": Flag(
        word="not reading",
        tone="bad",
        sentence="Its connection takes no bytes: a slow network, or a client that hangs.",
    ),
    "ack-less": Flag(
        word="acks nothing",
        tone="bad",
        sentence="It has had messages for 20 s or longer, and acks none of them.",
    ),
    "silent": Flag(
        word="silent",
        tone="warn",
        sentence="It asks for no messages, and has done nothing for 10 s or longer: its queue is full, or its"
        " application does not receive.",
    ),
    "hoarding": Flag(
        word="hoarding",
        tone="warn",
        sentence="It has nearly all unacked messages of its subscription in its queue, while another consumer has"
        " nothing to do.",
    ),
    "old": Flag(
        word="old client",
        tone="warn",
        sentence="Its library speaks a version of the protocol below 12: it is not notified which consumer is active,"
        " and below 4 it cannot read batches.",
    ),
    "refused": Flag(word="refused", tone="bad", sentence="The broker refused a message of this producer."),
}
