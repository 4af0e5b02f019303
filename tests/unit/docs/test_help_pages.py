"""The documentation as the console serves it: without login or database, and every link leads somewhere."""

from __future__ import annotations

import re
from functools import cache

import pytest
from django.test import Client

from console.addresses import help_url
from console.diagnosis.diagnose import RULES
from console.help.library import pages, runbook_page
from console.middleware import POLICY
from console.words.troubles import WORDS, Trouble
from tests.unit.docs.pages import code_names, page

SECTIONS = ("You see", "It means", "Check", "What to do", "What not to do", "Call a developer")
LINK = re.compile(r'(?:href|src)="(/help[^"#]*)?(?:#([^"]*))?"')


@cache
def served(address: str) -> str:
    """Return the article of a page, requested with a session. A page that queried the database would fail here."""
    answer = Client(headers={"cookie": "sessionid=of-somebody"}).get(address)
    assert answer.status_code == 200
    assert answer["Content-Security-Policy"] == POLICY
    article: str = answer.content.decode().partition("<article")[2].partition("</article>")[0]
    assert article
    assert " style=" not in article
    return article


@pytest.mark.parametrize("name", sorted(pages()))
def test_every_page_is_served_and_its_links_lead_to_pages_and_anchors(name: str) -> None:
    article = served(help_url(name))
    for address, anchor in LINK.findall(article):
        if address.endswith(".png"):
            assert Client().get(address).status_code == 200
        elif anchor:
            assert f'id="{anchor}"' in (served(address) if address else article), (address, anchor)
        elif address:
            served(address)


@pytest.mark.parametrize("address", ["/help/nonsense", "/help/../../manage.py", "/help/how-to/", "/help/%00"])
def test_an_unknown_page_is_not_found(address: str) -> None:
    assert Client().get(address).status_code == 404


def test_a_page_can_only_be_read() -> None:
    assert Client().post("/help").status_code == 405


@pytest.mark.parametrize("rule", [each.id for each in RULES])
def test_every_rule_has_its_page_in_the_runbook(rule: str) -> None:
    text = page(f"{runbook_page(rule)}.md")
    assert rule in code_names(text)
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == SECTIONS
    assert f"({rule.replace('_', '-')}.md)" in page("runbook/README.md")


@pytest.mark.parametrize("trouble", [each for each in Trouble if each is not Trouble.CONSOLE])
def test_every_trouble_of_a_page_leads_to_the_runbook(trouble: Trouble) -> None:
    assert runbook_page(WORDS[trouble].runbook) in pages()
