"""Words for the pages that search messages or show new messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from console.words.numerals import count, size

__all__ = [
    "OPERATOR_WORDS",
    "ORDERS",
    "STARTS",
    "filter_words",
    "followed",
    "looked_at",
    "nothing_found",
    "stopped",
]

STARTS = {
    "newest": gettext_noop("newest"),
    "oldest": gettext_noop("oldest"),
    "time": gettext_noop("time"),
    "id": gettext_noop("position"),
    "next": gettext_noop("next for the subscription"),
    "holes": gettext_noop("holes of the subscription"),
}
OPERATOR_WORDS = {
    "contains": gettext_noop("contains"),
    "exists": gettext_noop("exists"),
}
ORDERS = {"older": gettext_noop("towards older"), "newer": gettext_noop("towards newer")}

_STOPPED = {
    "end": gettext_noop("That is all of them."),
    "limit": gettext_noop("Stopped at the limit of {rows}."),
    "entries": gettext_noop("Stopped after opening {opened}; there may be more."),
    "bytes": gettext_noop("Stopped after reading {bytes}; there may be more."),
    "time": gettext_noop("Stopped because time was up; there may be more."),
    "database": gettext_noop("Stopped because the database took too long; there may be more."),
    "cursor": gettext_noop(
        "Stopped because the cursor has more acked ranges than one page reads; there may be more."
    ),
}

_NOTHING_HERE = gettext_noop("No message is stored here.")
_NOTHING = {
    "next": gettext_noop("Nothing is unacked on this subscription."),
    "holes": gettext_noop("This subscription has no holes."),
    "time": gettext_noop("No message is stored there in this direction."),
    "id": gettext_noop("No message is stored there in this direction."),
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
    """Return sentences about the searched entries, the matching messages and the unreadable entries."""
    look = (
        _("By key hash: looked at {number} of {entries}")
        if is_narrowed
        else _("Looked at {number} of {entries}")
    )
    looked = look.format(number=count(entries), entries=_entries(stored))
    if is_filtered:
        matching = ngettext(
            "{looked}, {number} message matches", "{looked}, {number} messages match", matched
        )
        looked = matching.format(looked=looked, number=count(matched))
    sentences = [_("{sentence}.").format(sentence=looked)]
    if unjudged:
        number = sum(unjudged.values())
        words = ngettext(
            "{number} entry could not be searched: {kinds}.",
            "{number} entries could not be searched: {kinds}.",
            number,
        )
        kinds = ", ".join(f"{count(each)} {_(kind)}" for kind, each in sorted(unjudged.items()))
        sentences.append(words.format(number=count(number), kinds=kinds))
    if gone:
        words = ngettext(
            "{number} entry was trimmed or moved meanwhile: reload to be sure.",
            "{number} entries were trimmed or moved meanwhile: reload to be sure.",
            gone,
        )
        sentences.append(words.format(number=count(gone)))
    return " ".join(sentences)


def stopped(reason: str, *, rows: int, opened: int, read_bytes: int) -> str:
    """Return why the search stopped."""
    return _(_STOPPED[reason]).format(rows=_messages(rows), opened=_entries(opened), bytes=size(read_bytes))


def nothing_found(reason: str, *, start: str, gone: int, is_filtered: bool, is_continued: bool) -> str:
    """Return a sentence for an empty list."""
    if reason != "end":
        return _("No match so far: the search stopped before it had seen everything.")
    if gone:
        return _(
            "No message is left here: those that the search began with were trimmed or moved meanwhile."
            " Reload to be sure."
        )
    if is_continued:
        return _("No more messages.") if not is_filtered else _("No more messages match.")
    return _("No message matches.") if is_filtered else _(_NOTHING.get(start, _NOTHING_HERE))


def followed(*, matched: int, skipped: int, is_filtered: bool, is_first: bool) -> str:
    """Return sentences that say how many messages have arrived, and how many entries the page skipped."""
    if is_first:
        return (
            _("The matches among the newest entries are below.")
            if is_filtered
            else _("The newest messages are below.")
        )
    if is_filtered:
        words = ngettext(
            "{number} message that matches has arrived.",
            "{number} messages that match have arrived.",
            matched,
        )
    else:
        words = ngettext("{number} message has arrived.", "{number} messages have arrived.", matched)
    sentences = [words.format(number=count(matched))]
    if skipped:
        words = ngettext(
            "{number} entry was skipped: more arrived than this page looks at.",
            "{number} entries were skipped: more arrived than this page looks at.",
            skipped,
        )
        sentences.append(words.format(number=count(skipped)))
    return " ".join(sentences)


def filter_words(given: Mapping[str, Any]) -> list[str]:
    """Describe each filter of a form in a few words."""
    path, value = given.get("path"), given.get("value")
    operator = given.get("op") or "="
    word = _(OPERATOR_WORDS[operator]) if operator in OPERATOR_WORDS else operator
    test = f"{path} {word} {value}" if value else _("{path} exists").format(path=path)
    texts = {
        "partition": _("partition {partition}").format(partition=given.get("partition")),
        "key": _("key {key}").format(key=given.get("key")),
        "prop": _("property {property}").format(property=given.get("prop")),
        "path": test,
        "text": _("payload contains {text}").format(text=given.get("text")),
        "sub": _("state on {subscription}").format(subscription=given.get("sub")),
    }
    return [text for name, text in texts.items() if given.get(name) not in (None, "")]


def _entries(number: int) -> str:
    return ngettext("{number} entry", "{number} entries", number).format(number=count(number))


def _messages(number: int) -> str:
    return ngettext("{number} message", "{number} messages", number).format(number=count(number))
