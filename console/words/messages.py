"""The message browser in words: where it starts, how much it looked at, and why it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.words.numerals import count, size

__all__ = ["ORDERS", "STARTS", "filter_words", "followed", "looked_at", "nothing_found", "stopped"]

STARTS = {
    "newest": "newest",
    "oldest": "oldest",
    "time": "time",
    "id": "position",
    "next": "next for the subscription",
    "holes": "holes of the subscription",
}
ORDERS = {"older": "towards older", "newer": "towards newer"}

_STOPPED = {
    "end": "That is all of them.",
    "limit": "Stopped at the limit of {rows}.",
    "entries": "Stopped because it had opened {opened}; there may be more.",
    "bytes": "Stopped because it had read {bytes}; there may be more.",
    "time": "Stopped because time was up; there may be more.",
    "database": "Stopped because the database took too long; there may be more.",
    "cursor": "Stopped because the cursor has more acked ranges than one page reads; there may be more.",
}

_NOTHING = {
    "next": "Nothing is unacked on this subscription.",
    "holes": "This subscription has no holes.",
    "time": "No message is stored there in this direction.",
    "id": "No message is stored there in this direction.",
}


def looked_at(
    *,
    entries: int,
    stored: int,
    matched: int,
    is_filtered: bool,
    is_narrowed: bool,
    unjudged: Mapping[str, int],
    gone: int,
) -> str:
    """Return how much was looked at, in which way, and how much of it matches."""
    way = "By key hash: looked" if is_narrowed else "Looked"
    words = [f"{way} at {count(entries)} of {_entries(stored)}"]
    if is_filtered:
        words.append(f"{_messages(matched)} {'matches' if matched == 1 else 'match'}")
    sentences = [", ".join(words) + "."]
    if unjudged:
        kinds = ", ".join(f"{count(number)} {kind}" for kind, number in sorted(unjudged.items()))
        sentences.append(f"{_entries(sum(unjudged.values())).capitalize()} could not be searched: {kinds}.")
    if gone:
        sentences.append(f"{_entries(gone).capitalize()} were trimmed or moved meanwhile: reload to be sure.")
    return " ".join(sentences)


def stopped(reason: str, *, rows: int, opened: int, read_bytes: int) -> str:
    """Return why the search stopped."""
    return _STOPPED[reason].format(rows=_messages(rows), opened=_entries(opened), bytes=size(read_bytes))


def nothing_found(reason: str, *, start: str, gone: int, is_filtered: bool, is_continued: bool) -> str:
    """Return a sentence for an empty list. If the search stopped early, it does not say that there is no message."""
    if reason != "end":
        return "No match so far: the search stopped before it had seen everything."
    if gone:
        return "Nothing is left here: what the search began with was trimmed or moved meanwhile. Reload to be sure."
    if is_continued:
        return "No more messages." if not is_filtered else "No more messages match."
    return "No message matches." if is_filtered else _NOTHING.get(start, "No message is stored here.")


def followed(*, matched: int, skipped: int, is_filtered: bool, is_first: bool) -> str:
    """Say how many messages have come since the page was opened, and how many entries it did not look at."""
    if is_first:
        return (
            "What matches among the newest entries is below."
            if is_filtered
            else "The newest messages are below."
        )
    came = "1 message has" if matched == 1 else f"{_messages(matched)} have"
    words = [
        f"{came} come that {'matches' if matched == 1 else 'match'}." if is_filtered else f"{came} come."
    ]
    if skipped:
        were = "was" if skipped == 1 else "were"
        words.append(f"{_entries(skipped)} {were} skipped: more came than this page looks at.")
    return " ".join(words)


def filter_words(given: Mapping[str, Any]) -> list[str]:
    """Return the filters among the values of a form, each as a few words."""
    path, value = given.get("path"), given.get("value")
    test = f"{path} {given.get('op') or '='} {value}" if value else f"{path} exists"
    texts = {
        "partition": f"partition {given.get('partition')}",
        "key": f"key {given.get('key')}",
        "prop": f"property {given.get('prop')}",
        "path": test,
        "text": f"payload contains {given.get('text')}",
        "sub": f"state on {given.get('sub')}",
    }
    return [text for name, text in texts.items() if given.get(name) not in (None, "")]


def _entries(number: int) -> str:
    return f"{count(number)} " + ("entry" if number == 1 else "entries")


def _messages(number: int) -> str:
    return f"{count(number)} message" + ("" if number == 1 else "s")
