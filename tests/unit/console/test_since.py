"""The place that a page has reached while it follows a topic."""

from __future__ import annotations

import pytest

from console.tail.since import MOST_CHARACTERS, Since, read_since


@pytest.mark.parametrize("places", [((1, 2),), ((1, 2), (3, 0), (4, 5))])
def test_a_place_is_read_as_it_is_written(places: tuple[tuple[int, int], ...]) -> None:
    since = Since(matched=7, skipped=0, places=places)
    assert read_since(str(since)) == since


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0-0@",
        "0-0@1",
        "0-0@1:2,",
        "0-0@1:23:4",
        "0-0@1:" + "9" * 19,
        "0-0@" + "1:2," * MOST_CHARACTERS + "1:2",
        # A pattern that can divide these digits in many ways would not end in this century.
        "0-0@1:" + "1111:" * 300 + "x",
    ],
    ids=["empty", "no place", "no entry", "comma", "no comma", "too large", "too long", "many colons"],
)
def test_a_changed_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="do not change it"):
        read_since(text)
