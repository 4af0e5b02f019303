"""HTML of a page: anchors as code hosts make them, links to what the console serves, no style."""

from __future__ import annotations

import pytest

from console.help.rendering import HelpPage, render

SERVED = {"how-to/skip.md": "/help/how-to/skip", "runbook/poison.md": "/help/runbook/poison"}


def rendered(text: str, *, file: str = "runbook/poison.md") -> HelpPage:
    return render(text, file=file, address_of=lambda path: SERVED.get(path, ""))


def test_a_heading_has_the_anchor_of_a_code_host() -> None:
    page = rendered("# A `stuck` one\n\n## What not to do, ever!\n\n## Check\n\n## Check\n")
    assert page.title == "A stuck one"
    assert page.anchors == {"a-stuck-one", "what-not-to-do-ever", "check", "check-1"}
    assert '<h2 id="check-1">Check</h2>' in page.html


@pytest.mark.parametrize(
    ("link", "html"),
    [
        ("../how-to/skip.md#all", '<a href="/help/how-to/skip#all">here</a>'),
        ("poison.md", '<a href="/help/runbook/poison">here</a>'),
        ("#check", '<a href="#check">here</a>'),
        ("https://example.org/", '<a href="https://example.org/">here</a>'),
        ("../../Makefile", "<span>here</span>"),
        ("javascript:alert", "here"),
    ],
)
def test_a_link_leads_to_a_page_of_the_console_or_becomes_text(link: str, html: str) -> None:
    found = str(rendered(f"See [here]({link}).").html)
    assert html in found
    assert "href" not in found or "href" in html


def test_a_page_is_rendered_without_styles_and_without_markup_of_its_text() -> None:
    page = rendered("| a | n |\n|---|--:|\n| x | 1 |\n\n<b onclick='x()'>bold</b> <script>y()</script>\n")
    assert '<th class="number">n</th>' in page.html
    assert '<div class="scroll" tabindex="0"><table>' in page.html
    assert "style" not in page.html
    assert "<b" not in page.html
    assert "<script" not in page.html
