"""Where a read starts and ends: the options as an offset for each topic, checked against the stored entries."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from pipeline.database import Connection
from pipeline.errors import OR_READ_ON, DataLost, InvalidOption, SubscriptionNotFound, counted
from pipeline.queries import query
from pipeline.source.offsets import AskedOffsets, Named, Offset, Offsets
from pipeline.source.options import ReadOptions
from pipeline.source.topic_logs import EntryIndex, TopicLog

__all__ = ["ends_of", "last_before", "require_stored", "starts_of"]

logger = logging.getLogger(__name__)

_ANOTHER_TOPIC: Final = "it is not the topic that was read: it was deleted and created again, or restored"


def starts_of(
    connection: Connection,
    logs: Sequence[TopicLog],
    options: ReadOptions,
    *,
    default: Named,
) -> Offsets:
    """Return the offset before the first entry to read in each topic. Each log must have all its ledgers.

    Raises InvalidOption if a named topic is not part of the read or an offset is beyond the end, SubscriptionNotFound
    if a topic lacks the subscription, and DataLost if entries after an offset are gone or a topic was created again.
    This and `ends_of` also raise the errors of `EntryIndex.totals`.
    """
    index = EntryIndex(connection, offload_url=options.offload_url)
    if options.starting_time_ms is not None:
        return _before(index, logs, options.starting_time_ms)
    if options.subscription is not None:
        given = _cursors(connection, logs, options.subscription)
        asked = AskedOffsets(others="earliest", by_topic=given)
    else:
        asked = options.starting or AskedOffsets(others=default, by_topic={})
    return _resolve(index, logs, options, asked, "startingOffsets")


def ends_of(connection: Connection, logs: Sequence[TopicLog], options: ReadOptions) -> Offsets:
    """Return the offset of the last entry to read in each topic. Each log must have all its ledgers.

    Raises InvalidOption like `starts_of`, and DataLost if everything up to an offset is gone or a topic was created
    again.
    """
    index = EntryIndex(connection, offload_url=options.offload_url)
    if options.ending_time_ms is not None:
        return _before(index, logs, options.ending_time_ms)
    asked = options.ending or AskedOffsets(others="latest", by_topic={})
    return _resolve(index, logs, options, asked, "endingOffsets")


def require_stored(log: TopicLog, offset: Offset, options: ReadOptions) -> Offset:
    """Return `offset` if the topic is the one that was read, and nothing after the offset was trimmed.

    Otherwise raise DataLost, or if failOnDataLoss is false, log the loss and return the nearest offset.
    """
    problem = _problem(log, offset)
    if problem is None:
        return offset
    _report_loss(f"{log.topic.name} cannot be read from {offset} on: {problem}", options)
    is_beyond = log.ledgers and offset.position > log.latest.position
    return log.latest if is_beyond else log.earliest


def _report_loss(text: str, options: ReadOptions) -> None:
    """Raise DataLost, or log a warning if failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise DataLost(text, OR_READ_ON)
    logger.warning("%s; failOnDataLoss is false, so the read continues without these messages", text)


def _is_trimmed(log: TopicLog, end: Offset) -> bool:
    """Return whether the entry at `end` existed and was trimmed, with everything before it."""
    ledger = log.ledger(end.ledger_id)
    if ledger is not None:
        return ledger.is_trimmed and end.entry_id >= 0
    return end.position < log.earliest.position and log.earliest.messages != 0


def _has_fewer_messages(log: TopicLog, offset: Offset) -> bool:
    """Return whether the topic has fewer messages than an offset counts, so that it cannot be the one that was read."""
    latest = log.latest
    return offset.messages is not None and latest.messages is not None and offset.messages > latest.messages


def _problem(log: TopicLog, offset: Offset) -> str | None:
    if _has_fewer_messages(log, offset):
        return "the topic has fewer messages than were read: it was deleted and created again, or restored"
    following = next((each for each in log.ledgers if each.ledger_id >= offset.ledger_id), None)
    if following is None:
        return None
    if following.ledger_id == offset.ledger_id and 0 <= offset.entry_id <= following.last:
        return None
    if offset.messages is None:
        if following.ledger_id == offset.ledger_id and offset.entry_id < 0 and not following.is_trimmed:
            return None
        return f"entry {offset} is not stored any more; retention trims ledgers"
    # Retention deletes old ledgers. It keeps a topic's last ledger, and deletes only the entries in it.
    lost = following.messages_before - offset.messages
    if lost < 0:
        return _ANOTHER_TOPIC
    return f"retention trimmed {counted(lost, 'message', 'messages')} after it" if lost else None


def _before(index: EntryIndex, logs: Sequence[TopicLog], time_ms: int) -> Offsets:
    return {log.topic.name: last_before(index, log, time_ms) for log in logs}


def last_before(index: EntryIndex, log: TopicLog, time_ms: int) -> Offset:
    """Return the offset of the last entry that was stored before a time. Append times of a topic never go back."""
    found = log.earliest
    for ledger in log.ledgers:
        last = ledger.last
        if ledger.last_append_ms >= time_ms:
            last = index.last_where(ledger.ledger_id, 0, ledger.last, lambda entry: entry.append_ms < time_ms)
        if last >= 0:
            found = _at_an_entry(index, log, Offset(ledger_id=ledger.ledger_id, entry_id=last))
        if last < ledger.last:
            break
    return found


def _cursors(connection: Connection, logs: Sequence[TopicLog], subscription: str) -> dict[str, Offset]:
    names = {log.topic.topic_id: log.topic.name for log in logs}
    rows = connection.execute(query("cursors"), (list(names), subscription)).fetchall()
    found = {
        names[topic_id]: Offset(ledger_id=ledger_id, entry_id=entry_id)
        for topic_id, ledger_id, entry_id in rows
    }
    missing = sorted(names.values() - found.keys())
    if missing:
        raise SubscriptionNotFound(
            f"topic {missing[0]} has no subscription {subscription!r}: check option predefinedSubscription"
        )
    return found


def _resolve(
    index: EntryIndex, logs: Sequence[TopicLog], options: ReadOptions, asked: AskedOffsets, option: str
) -> Offsets:
    strangers = sorted(asked.by_topic.keys() - {log.topic.name for log in logs})
    if strangers:
        raise InvalidOption(f"option {option} names {strangers[0]}, which does not belong to {options.label}")
    return {
        log.topic.name: _resolve_one(
            index, log, options, asked.by_topic.get(log.topic.name, asked.others), option
        )
        for log in logs
    }


def _resolve_one(
    index: EntryIndex,
    log: TopicLog,
    options: ReadOptions,
    asked: Named | Offset,
    option: str,
) -> Offset:
    if asked == "latest":
        return log.latest
    if asked == "earliest" or asked.ledger_id < 0:
        return log.earliest
    if options.subscription is None:
        emptied = log.ledger(asked.ledger_id)
        is_beyond = asked.position > log.latest.position and (emptied is None or not emptied.is_trimmed)
        if is_beyond and not (option == "startingOffsets" and _has_fewer_messages(log, asked)):
            raise InvalidOption(
                f"option {option} is {asked}, beyond the last entry {log.latest} of {log.topic.name}"
            )
        # Retention keeps what a subscription has not acked. After any other offset, entries may have been trimmed.
        if option == "startingOffsets":
            asked = require_stored(log, asked, options)
    if option == "endingOffsets" and _is_trimmed(log, asked):
        _report_loss(
            f"{log.topic.name} cannot be read up to {asked}: retention trimmed everything up to it", options
        )
    found = _at_an_entry(index, log, asked)
    # If retention had only removed the entry, `found` would be the earliest offset, whose count is not smaller.
    if option == "endingOffsets" and (found.messages or 0) < (asked.messages or 0):
        _report_loss(f"{log.topic.name} cannot be read up to {asked}: {_ANOTHER_TOPIC}", options)
    return found


def _at_an_entry(index: EntryIndex, log: TopicLog, offset: Offset) -> Offset:
    """Return the last stored entry at or before an offset, with its count of messages."""
    ledger = next((each for each in reversed(log.ledgers) if each.ledger_id <= offset.ledger_id), None)
    if ledger is None:
        return log.earliest
    entry_id = ledger.last
    if ledger.ledger_id == offset.ledger_id:
        entry_id = min(offset.entry_id, ledger.last)
    if entry_id == ledger.last:
        messages = ledger.messages_through
    elif entry_id < 0:
        messages = ledger.messages_before
    else:
        messages = index.totals(ledger.ledger_id, entry_id).messages
    return Offset(ledger_id=ledger.ledger_id, entry_id=entry_id, messages=messages)
