"""Mark characters that are invisible or that change the direction of text.

A character that changes the text direction can make one topic's name look like another's. Lone surrogates are
marked too, because JSON can contain them but an HTML page cannot.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

__all__ = ["coded", "is_plain", "marked", "one_line", "shown", "visible"]

_UNSEEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff"
)
_IN_PAGES: Final = re.compile(f"[{_UNSEEN}]")  # Leaves out line breaks and tabs, because every page has some
_IN_TEXT: Final = re.compile(f"[{_UNSEEN}\t\n\r]")
_LINE_BREAK: Final = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
_CODE: Final = re.compile("`([^`]+)`")
_TAG: Final = re.compile(r"(<[^>]*>)")
_TEXT_ONLY: Final = ("<title", "<option")
_KEPT: Final = ("<textarea",)  # A text area gets no marks, because the form would send them


def marked(text: object) -> SafeString:
    """Escape a client's text, and mark its invisible characters, line breaks and tabs."""
    return mark_safe(_IN_TEXT.sub(_mark, escape(text)))  # noqa: S308 - escaped just here


def one_line(text: str) -> str:
    """Replace each line break and its surrounding white space with one space."""
    return _LINE_BREAK.sub(" ", text).strip()


def coded(text: str) -> SafeString:
    """Apply `marked`, and show the text between backticks as code."""
    return mark_safe(_CODE.sub(r"<code>\1</code>", marked(text)))  # noqa: S308 - escaped by `marked`


def shown(text: str) -> str:
    """Return plain text with a visible sign for each invisible character."""
    return _IN_TEXT.sub(lambda found: _picture(found[0]), text)


def is_plain(text: str) -> bool:
    """Return whether `text` has none of the characters that `visible` marks."""
    return _IN_PAGES.search(text) is None


def visible(html: str) -> SafeString:
    """Mark the invisible characters of a rendered page."""
    if _IN_PAGES.search(html) is None:
        return mark_safe(html)  # noqa: S308 - rendered by a template
    tokens = _TAG.split(html)
    for at, token in enumerate(tokens):
        if at % 2 or (at and tokens[at - 1].startswith(_KEPT)):
            tokens[at] = _IN_PAGES.sub(_reference, token)
        elif at and tokens[at - 1].startswith(_TEXT_ONLY):
            tokens[at] = _IN_PAGES.sub(lambda found: _picture(found[0]), token)
        else:
            tokens[at] = _IN_PAGES.sub(_mark, token)
    return mark_safe("".join(tokens))  # noqa: S308 - rendered by a template


def _mark(found: re.Match[str]) -> str:
    character = found[0]
    other = "lone surrogate" if unicodedata.category(character) == "Cs" else "control character"
    name = f"U+{ord(character):04X} {unicodedata.name(character, other)}"
    return f'<span class="mark" role="img" title="{name}" aria-label="{name}">{_picture(character)}</span>'


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"


def _reference(found: re.Match[str]) -> str:
    """Return the character's numeric reference, or the character itself if HTML has no reference for it."""
    code = ord(found[0])
    return found[0] if code == 0 or 0x80 <= code < 0xA0 else f"&#x{code:X};"
