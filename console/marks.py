"""Characters that are not seen, or that turn the text around them about, shown as marks.

Names, keys, properties and payloads are clients' text. A direction character in one of them can make a page show the
name of another topic; a control character is not seen at all.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

__all__ = ["marked", "shown", "visible"]

_UNSEEN: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_IN_PAGES: Final = re.compile(f"[{_UNSEEN}]")  # the pages' own line breaks are no marks
_IN_TEXT: Final = re.compile(f"[{_UNSEEN}\t\n\r]")
_TAG: Final = re.compile(r"(<[^>]*>)")
_TEXT_ONLY: Final = ("<title", "<option", "<textarea")  # elements that hold no others


def marked(text: object) -> SafeString:
    """Escape a client's text and mark what is not seen in it, line breaks and tabs included."""
    return mark_safe(_IN_TEXT.sub(_mark, escape(text)))  # noqa: S308 - escaped just here


def shown(text: str) -> str:
    """What a person reads where `marked` has marked a text, and can type."""
    return _IN_TEXT.sub(lambda found: _picture(found[0]), text)


def visible(html: str) -> SafeString:
    """Mark what is not seen in a rendered page. What an attribute holds stays the value that it is."""
    if _IN_PAGES.search(html) is None:
        return mark_safe(html)  # noqa: S308 - rendered by a template
    tokens = _TAG.split(html)
    for at, token in enumerate(tokens):
        if at % 2:
            tokens[at] = _IN_PAGES.sub(_reference, token)
        elif at and tokens[at - 1].startswith(_TEXT_ONLY):
            tokens[at] = _IN_PAGES.sub(lambda found: _picture(found[0]), token)
        else:
            tokens[at] = _IN_PAGES.sub(_mark, token)
    return mark_safe("".join(tokens))  # noqa: S308 - rendered by a template


def _mark(found: re.Match[str]) -> str:
    character = found[0]
    name = f"U+{ord(character):04X} {unicodedata.name(character, 'control character')}"
    return f'<span class="mark" role="img" title="{name}" aria-label="{name}">{_picture(character)}</span>'


def _picture(character: str) -> str:
    """The control picture that Unicode has for it, else its number."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"


def _reference(found: re.Match[str]) -> str:
    """The same character by number; HTML has no numbers for U+0000 and U+0080 to U+009F."""
    code = ord(found[0])
    return found[0] if code == 0 or 0x80 <= code < 0xA0 else f"&#x{code:X};"
