"""Report that nobody reads the messages in the dead-letter topic."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Evidence, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.said import said

__all__ = ["RULE"]

WINDOW_S: Final = 0.0


def find(snapshot: Snapshot) -> Finding | None:
    letters = snapshot.dead_letters
    if letters is None or not letters.messages:
        return None
    waiting: tuple[Evidence, ...] = ()
    if not letters.subscriptions:
        sentence = said(
            "Messages go to the dead-letter topic, which has no subscription: retention removes them unread."
        )
        cure = Cure(
            text=said("Create a subscription on it, from the earliest message"), letters=letters.topic
        )
    elif not letters.consumers and letters.backlog_messages:
        sentence = said("Messages wait in the dead-letter topic, and nobody reads them.")
        cure = Cure(text=said("Read them, then redrive or discard them"), letters=letters.topic)
        waiting = (fact(said("waiting in it"), letters.backlog_messages, Unit.MESSAGES),)
    else:
        return None
    return Finding(
        rule=RULE.id,
        severity=Severity.NOTICE,
        sentence=sentence,
        evidence=(
            fact(said("dead-letter topic"), letters.topic),
            fact(said("messages so far"), letters.messages, Unit.MESSAGES),
            *waiting,
        ),
        cures=(cure,),
    )


RULE: Final = Rule(id="dead_letters", window_s=WINDOW_S, find=find)
