"""The language of pages: who chooses it, what stays English, and that no word of a page goes untranslated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from console.access import Role
from console.models import Preferences
from tests.integration.console.conftest import granted
from tests.integration.console.furnished import furnish_everything
from tests.integration.console.shop import Shop
from tests.integration.console.test_every_page import BILLING, PAGES

API_OF_BILLING: Final = "/api/v1/topics/persistent/public/default/orders/subscriptions/billing"
CHINESE: Final = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}
# Words that are the same in every language: units, and names of formats, programs and everything in the shop.
SAME_EVERYWHERE: Final = frozenset(
    {
        "CSV",
        "GiB",
        "JSON",
        "KiB",
        "MiB",
        "NDJSON",
        "Parquet",
        "PostgreSQL",
        "Pulsar",
        "Spark",
        "TiB",
        "UTC",
        "UTF",
        "Vela",
    }
    | {"Export", "GB", "MB", "TB", "base64", "hex", "kB", "min", "ms", "p50", "p95", "p99", "pid"}
    | {"billing", "clerk", "dates", "default", "orders", "persistent", "public", "slow"}
)
WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]+")
READ_ATTRIBUTES: Final = ("title", "aria-label", "placeholder", "alt")
NOT_READ: Final = frozenset({"script", "style", "code", "pre", "kbd", "textarea"})
VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
OPEN, CLOSE = "⟦", "⟧"


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    """Reset the language, which a page leaves set in the thread."""
    yield
    translation.deactivate()


@pytest.fixture
def ada(db: None) -> User:
    """A user who may act everywhere."""
    return granted(User.objects.create_user("ada"), {"*": Role.OPERATOR})


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def language_of(response: Any) -> str:
    found = re.search(r'<html lang="([^"]*)"', response.content.decode())
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("header", "language"),
    [("zh-CN,zh;q=0.9", "zh-hans"), ("zh-TW", "zh-hans"), ("de", "en"), ("en,zh", "en"), ("", "en")],
)
def test_the_browser_asks_for_a_language(header: str, language: str, anonymous: Client, db: None) -> None:
    page = anonymous.get("/login", headers={"Accept-Language": header})
    assert (language_of(page), page["Content-Language"]) == (language, language)


def test_a_cookie_is_stronger_than_the_browser(anonymous: Client, db: None) -> None:
    answer = anonymous.post("/language", {"language": "zh-hans", "next": "/login?next=/acts"})
    assert answer["Location"] == "/login?next=/acts"
    assert language_of(anonymous.get("/login")) == "zh-hans"
    assert 'value="zh-hans"' in anonymous.get("/login").content.decode()
    assert anonymous.post("/language", {"language": "en", "next": "//elsewhere.example"})["Location"] == "/"
    assert language_of(anonymous.get("/login", headers=CHINESE)) == "en"


def test_the_chosen_language_is_kept_with_the_user(ada: User) -> None:
    browser_of(ada).post(
        "/language", {"language": "zh-hans"}, headers={"Referer": "http://testserver/account"}
    )
    assert Preferences.objects.get().language == "zh-hans"
    elsewhere = browser_of(ada)
    assert language_of(elsewhere.get("/account")) == "zh-hans"
    assert language_of(elsewhere.get("/t/persistent/public/default/nothing")) == "zh-hans"
    other = browser_of(granted(User.objects.create_user("vera"), {"*": Role.VIEWER}))
    assert language_of(other.get("/account")) == "en"


def test_refusals_and_errors_speak_the_language_of_the_user(ada: User, shop: Shop) -> None:
    Preferences.objects.create(user=ada, language="zh-hans")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    forged = browser.post("/theme", {"theme": "dark"})
    assert (forged.status_code, language_of(forged), "重新加载" in forged.text) == (403, "zh-hans", True)
    foreign = browser.post("/theme", {"theme": "dark"}, headers={"Origin": "https://elsewhere.example"})
    assert "VELA_CSRF_TRUSTED_ORIGINS" in foreign.text
    for address, words in (("/acts/987654", "没有操作 987654。"), ("/no-such-page", "/no-such-page")):
        missing = browser.get(address)
        assert (missing.status_code, language_of(missing), words in missing.text) == (404, "zh-hans", True)
    ada.set_password("tested-7")
    ada.save()
    browser = browser_of(ada)
    passwords = {"old": "tested-7", "new": "a1", "again": "a1"}
    weak = browser.post("/account/password", passwords)
    assert "密码太短，至少需要 8 个字符。" in weak.text
    assert "This password" not in weak.text


def test_an_unknown_language_is_ignored(ada: User) -> None:
    browser = browser_of(ada)
    for code in ("", "de", "zh-hans\0", "../../etc"):
        assert browser.post("/language", {"language": code, "next": "/account"}).status_code == 302
        assert language_of(browser.get("/account")) == "en"
    assert not Preferences.objects.exists()


def test_programs_get_english(ada: User, shop: Shop) -> None:
    Preferences.objects.create(user=ada, language="zh-hans")
    browser = browser_of(ada)
    for address in ("/api/v1/nothing", "/api/v1/topics/persistent/public/default/nothing", "/api/v1/topics"):
        answer = browser.get(address, headers=CHINESE)
        assert answer["Content-Language"] == "en"
        assert answer.content.isascii()


def test_a_part_has_a_version_for_each_language(ada: User, shop: Shop) -> None:
    browser = browser_of(ada)
    address = f"{BILLING}?part=numbers"
    english = browser.get(address)
    chinese = browser.get(address, headers={**CHINESE, "If-None-Match": english["ETag"]})
    assert (chinese.status_code, "积压" in chinese.content.decode()) == (200, True)


def test_a_page_follows_its_stream_in_its_own_language(ada: User, shop: Shop) -> None:
    browser = browser_of(ada)
    streams = [
        re.findall(r'sse-connect="([^"]*)"', browser.get(address, headers=headers).content.decode())
        for address in ("/account", BILLING)
        for headers in ({}, CHINESE)
    ]
    assert [["language=zh-hans" in each for each in found] for found in streams] == [[False], [True]] * 2


def test_a_diagnosis_is_in_the_language_of_its_reader(ada: User, shop: Shop) -> None:
    browser = browser_of(ada)
    of_programs = browser.get(f"{API_OF_BILLING}/diagnosis", headers=CHINESE)
    assert of_programs.json()["findings"]
    assert of_programs.content.isascii()
    english, chinese = (
        re.findall(
            r'<p class="words">.*?</p>', browser.get(f"{BILLING}?part=why", headers=headers).text, re.DOTALL
        )
        for headers in ({}, CHINESE)
    )
    assert len(english) == len(chinese) > 0
    assert not any(re.search("[\u4e00-\u9fff]", each) for each in english)
    assert all(re.search("[\u4e00-\u9fff]", each) for each in chinese)


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language that puts each translated text between brackets."""
    django: Any = translation._trans  # type: ignore[attr-defined]

    def bracket(name: str) -> None:
        real = getattr(django, name)
        monkeypatch.setattr(django, name, lambda *texts: f"{OPEN}{real(*texts)}{CLOSE}")

    for name in ("gettext", "ngettext", "pgettext", "npgettext"):
        bracket(name)


@pytest.mark.django_db(transaction=True)  # acts are read over a separate connection
def test_no_word_goes_untranslated(admin: Client, anonymous: Client, shop: Shop, bracketed: None) -> None:
    found = {}
    furnished = furnish_everything(shop, "4711")  # names without letters, because users choose names
    addresses = {*PAGES, *(each for some in furnished.values() for each in some), "/nothing"}
    # The documentation is in English only.
    addresses -= {each for each in addresses if each.startswith("/help")}
    for browser, address in [*((admin, each) for each in sorted(addresses)), (anonymous, "/login")]:
        html = browser.get(address).content.decode()
        assert OPEN in html
        found[address] = untranslated(html)
    assert {address: texts for address, texts in found.items() if texts} == {}


def untranslated(html: str) -> list[str]:
    """Return the texts of a page with English words that are neither in brackets nor in an element with data."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.depth == 0
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.depth = 0  # the depth of brackets: a translated text may contain elements
        self._open: list[tuple[str, bool]] = []  # the open elements, and whether each contains data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_data = self._is_data or tag in NOT_READ or given.get("translate") == "no"
        is_button = tag == "input" and given.get("type") in ("submit", "button", "reset")
        for name in () if is_data else (*READ_ATTRIBUTES, *(["value"] if is_button else [])):
            self._read(given.get(name) or "")
        if tag not in VOID:
            self._open.append((tag, is_data))

    def handle_endtag(self, tag: str) -> None:
        while any(name == tag for name, _ in self._open) and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._is_data:
            self._read(data)

    @property
    def _is_data(self) -> bool:
        return bool(self._open) and self._open[-1][1]

    def _read(self, text: str) -> None:
        outside = []
        for piece in re.split(f"([{OPEN}{CLOSE}])", text):
            if piece == OPEN:
                self.depth += 1
            elif piece == CLOSE:
                self.depth -= 1
            elif self.depth == 0:
                outside.append(piece)
        if any(word not in SAME_EVERYWHERE for piece in outside for word in WORD.findall(piece)):
            self.found.append(" ".join(text.split()))
