"""Report that messages of a Key_Shared subscription wait, because one consumer blocks their key."""

from __future__ import annotations

from typing import Final

from console.diagnosis.findings import Cure, Finding, Rule, Severity, Unit, fact
from console.diagnosis.snapshot import Snapshot
from console.words.numerals import count
from console.words.said import said, said_many

__all__ = ["RULE"]

WINDOW_S: Final = 5.0


def find(snapshot: Snapshot) -> Finding | None:
    block = snapshot.subscription.key_block
    if block is None or not block.waiting_entries:
        return None
    consumer = next((each for each in snapshot.consumers if each.key == block.consumer_key), None)
    if (
        consumer is None
        or snapshot.seconds_since(max(consumer.last_ack_ms, consumer.oldest_delivered_ms)) < WINDOW_S
    ):
        return None
    if not any(each.is_available for each in snapshot.consumers if each.key != consumer.key):
        return None
    if block.is_draining:
        why = said(
            "{name} has earlier messages with their key in flight and no longer owns the key",
            name=consumer.name,
        )
    else:
        why = said("{name} owns their key and takes no more", name=consumer.name)
    return Finding(
        rule=RULE.id,
        severity=Severity.SLOW if snapshot.consumers_ack else Severity.STOPPED,
        sentence=said_many(
            "{waiting} entry waits, because {why}. Messages of one key are delivered in order.",
            "{waiting} entries wait, because {why}. Messages of one key are delivered in order.",
            n=block.waiting_entries,
            waiting=count(block.waiting_entries),
            why=why,
        ),
        evidence=(
            fact(said("hash slot of the key"), str(block.slot)),
            fact(said("waiting behind it"), block.waiting_entries, Unit.ENTRIES),
            fact(said("in flight at {name}", name=consumer.name), consumer.unacked_messages, Unit.MESSAGES),
            fact(said("oldest of them"), consumer.oldest_position),
            fact(said("delivered"), consumer.oldest_delivered_ms, Unit.TIME),
            fact(said("its last ack"), consumer.last_ack_ms, Unit.TIME),
        ),
        cures=(
            Cure(text=said("Look at what is in flight"), block="pending"),
            Cure(
                text=said("Disconnect {name}: the key goes to another consumer", name=consumer.name),
                act="disconnect",
                parameters=snapshot.which(consumer),
            ),
        ),
    )


RULE: Final = Rule(id="blocked_key", window_s=WINDOW_S, find=find)
