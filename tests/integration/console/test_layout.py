"""Very long names in a real Chromium: nothing overlaps, nothing leaves the window, and names keep their case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils.timezone import now
from playwright.sync_api import Browser, Page

from broker.models import (
    Act,
    BrokerProcess,
    ConsumerSession,
    PendingAck,
    ProducerSession,
    Subscription,
    Topic,
)
from tests.integration.console.shop import INSERT, Shop
from tests.integration.console.test_browser import StartedConsole
from tests.integration.console.test_browser import console as console
from tests.support.browser import chromium as chromium
from tests.support.plans import a_plan
from vela.wire.entry import encode_single

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "Aa" + "x" * 297 + "Z"

# Pairs of neighbours whose painted boxes cross, except where one contains the other.
OVERLAPS = """() => {
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && getComputedStyle(element).visibility !== "hidden";
  };
  const name = (element) => `${element.tagName}.${element.className} ${element.textContent.trim().slice(0, 40)}`;
  const found = [];
  const place = (element) => getComputedStyle(element).position;
  const groups = "tr, td, body, .heading, .trail, .words, .figures, .figures > div, .facts, .top, .notices";
  for (const group of document.querySelectorAll(groups)) {
    const children = [...group.children].filter((child) => shown(child) && !/fixed|absolute/.test(place(child)));
    for (const [number, one] of children.entries()) {
      // The ink of a cell may leave its box.
      const range = document.createRange();
      range.selectNodeContents(one);
      const rects = [...range.getClientRects(), one.getBoundingClientRect()];
      const right = Math.max(...rects.map((rect) => rect.right));
      for (const two of children.slice(number + 1)) {
        const other = two.getBoundingClientRect();
        const mine = one.getBoundingClientRect();
        const inline = getComputedStyle(one).display === "inline" || getComputedStyle(two).display === "inline";
        if (inline) continue;
        const sameLine = mine.top < other.bottom - 1 && other.top < mine.bottom - 1;
        if (sameLine && mine.left < other.left && right > other.left + 1) found.push(`${name(one)} | ${name(two)}`);
        else if (!sameLine) continue;
        else if (mine.left < other.right - 1 && other.left < mine.right - 1) found.push(`${name(one)} || ${name(two)}`);
      }
    }
  }
  return found;
}"""


@pytest.fixture
def long_names(shop: Shop) -> str:
    """Everything in the shop that has a name gets one of 300 characters; returns the address of the subscription."""
    topic = f"persistent://public/default/{LONG}"
    Topic.objects.filter(pk=shop.topic.pk).update(name=topic)
    Subscription.objects.filter(pk=shop.billing.pk).update(name=LONG)
    ConsumerSession.objects.update(name=LONG, client_version=LONG[:200])
    PendingAck.objects.update(consumer_name=LONG)
    ProducerSession.objects.update(name=LONG, client_version=LONG[:200])
    BrokerProcess.objects.update(host=LONG)
    data = encode_single(
        producer_name=LONG,
        sequence_id=1,
        publish_time_ms=shop.now_ms,
        payload=LONG.encode(),
        properties={LONG: LONG, "region": "eu", "kind": "order"},
        key=LONG,
    )
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM vela_entry_1 WHERE ledger_id = %s AND entry_id = 6", [shop.sealed.pk])
        cursor.execute(
            INSERT.replace("vela_entry", "vela_entry_1"), [shop.sealed.pk, 6, 1, shop.now_ms, 7, 700, data]
        )
    Act.objects.create(
        kind="reset",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=topic,
        subscription_name=LONG,
        parameters={"to": "earliest"},
        plan=a_plan(),
        who=LONG[:150],
        origin="console 127.0.0.1",
        reason=LONG,
        requested_at=now(),
        state="planned",
    )
    return f"/t/persistent/public/default/{LONG}/s/{LONG}"


@pytest.fixture
def page(chromium: Browser, console: StartedConsole) -> Iterator[Page]:
    """A logged-in operator's window."""
    person = Client()
    person.force_login(User.objects.create_user("ada", is_staff=True))
    context = chromium.new_context(base_url=console.url)
    context.set_default_timeout(30_000)
    context.add_cookies(
        [{"name": "sessionid", "value": person.cookies["sessionid"].value, "url": console.url}]
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_stay_in_their_place(page: Page, width: int, long_names: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    act = Act.objects.get()
    topic = long_names.partition("/s/")[0]
    addresses = ("/", "/topics", topic, f"{topic}?tab=producers", f"{topic}?tab=ledgers", long_names)
    for address in (*addresses, f"{long_names}/act/reset", "/acts", f"/acts/{act.pk}", f"{topic}-not"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
        assert page.evaluate(OVERLAPS) == [], address


def test_names_keep_their_case(page: Page, long_names: str) -> None:
    page.goto(long_names)
    assert page.inner_text("h1") == LONG
    transform = "[...new Set([...document.querySelectorAll('*')].map((each) => getComputedStyle(each).textTransform))]"
    assert page.evaluate(transform) == ["none"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_notice_is_never_under_the_header(page: Page, width: int, long_names: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    BrokerProcess.objects.update(seen_at=now().replace(year=2020))
    page.goto(long_names)
    for scroll in (0, 400):
        page.evaluate(f"window.scrollTo(0, {scroll})")
        box = page.evaluate("document.querySelector('.notice').getBoundingClientRect().toJSON()")
        assert 0 <= box["y"] < 900
        at = f"document.elementFromPoint({box['x'] + 30}, {box['y'] + box['height'] / 2}).closest('.notice') !== null"
        assert page.evaluate(at), scroll
