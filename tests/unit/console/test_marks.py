"""Marks for invisible characters: they are in text and in elements that contain only text, never in attributes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.marks import coded, marked, one_line, visible

UNSEEN = [*range(0x20), *range(0x7F, 0xA0), 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F)]
UNSEEN += [*range(0x2066, 0x206A), 0xFEFF]


def test_every_invisible_character_is_marked_with_its_number() -> None:
    for code in UNSEEN:
        shown = marked(f"a{chr(code)}b")
        assert chr(code) not in shown
        assert f'title="U+{code:04X} ' in shown


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs"])))
def test_text_without_unseen_characters_is_only_escaped(text: str) -> None:
    escaped = marked(text)
    assert "<" not in escaped
    assert visible(escaped) == escaped


def test_a_direction_character_is_named() -> None:
    assert marked("\u202e") == (
        '<span class="mark" role="img" title="U+202E RIGHT-TO-LEFT OVERRIDE"'
        ' aria-label="U+202E RIGHT-TO-LEFT OVERRIDE">[U+202E]</span>'
    )


def test_a_lone_surrogate_is_marked_and_a_page_can_be_encoded() -> None:
    page = '<title>\ud83d</title><input value="\ud83d"><p>\ud83d</p>'
    shown = visible(page)
    shown.encode()
    assert "<title>[U+D83D]</title>" in shown
    assert 'title="U+D83D lone surrogate"' in shown
    assert visible("\U0001f600") == "\U0001f600"


def test_a_page_keeps_its_line_breaks_and_the_values_of_attributes() -> None:
    page = '<title>a\u202eb</title>\n<p>a\x1bb</p><input value="a\u202eb"><option>\u200b</option>'
    shown = visible(page)
    assert "<title>a[U+202E]b</title>\n<p>" in shown
    assert '<input value="a&#x202E;b"><option>[U+200B]</option>' in shown
    assert "a<span" in shown
    assert visible(shown) == shown


def test_commands_in_a_sentence_are_code_and_everything_is_escaped() -> None:
    assert coded("Run `vela why <b>` or `make`, not `.") == (
        "Run <code>vela why &lt;b&gt;</code> or <code>make</code>, not `."
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n  "a": 1,\r\n\t"b": 2\n}\n', '{ "a": 1, "b": 2 }'),
        ("two  spaces and a\ttab stay", "two  spaces and a\ttab stay"),
        ("\n", ""),
    ],
)
def test_a_row_shows_line_breaks_as_spaces(text: str, line: str) -> None:
    assert one_line(text) == line
