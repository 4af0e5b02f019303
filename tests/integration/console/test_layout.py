"""Very long names in a real Chromium: nothing overlaps, nothing leaves the window, and names keep their case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.utils.timezone import now
from playwright.sync_api import Browser, Page

from broker.models import (
    Act,
    AlertRule,
    BrokerProcess,
    ConsumerSession,
    Namespace,
    PendingAck,
    PipelineRun,
    ProducerSession,
    Subscription,
    Tenant,
    Topic,
)
from console.models import SavedView
from tests.integration.console.furnished import furnish
from tests.integration.console.shop import Shop
from tests.integration.console.started_console import window
from tests.support.browser import chromium as chromium

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
    """Give everything in the shop a name of 300 characters, and return the address of the subscription's page."""
    topic = f"persistent://public/default/{LONG}"
    Topic.objects.filter(pk=shop.topic.pk).update(name=topic)
    Subscription.objects.filter(pk=shop.billing.pk).update(name=LONG)
    ConsumerSession.objects.update(name=LONG, client_version=LONG[:200], subscription_name=LONG)
    PendingAck.objects.update(consumer_name=LONG)
    ProducerSession.objects.update(name=LONG, client_version=LONG[:200], last_error=LONG[:200])
    BrokerProcess.objects.update(host=LONG)
    furnish(shop, LONG)
    return f"/t/persistent/public/default/{LONG}/s/{LONG}"


@pytest.fixture
def page(chromium: Browser, console_url: str) -> Iterator[Page]:
    """A browser window in which an operator is logged in."""
    with window(chromium, console_url) as page:
        yield page


def test_long_names_stay_in_their_place(page: Page, long_names: str, shop: Shop) -> None:
    topic = long_names.partition("/s/")[0]
    tenant = Tenant.objects.create(name="t" * 255)
    Namespace.objects.create(tenant=tenant, name="n" * 255, policies={"protected": True})
    policies = (f"{topic}?tab=policies", f"{topic}/policies", "/namespaces", "/n/public/default")
    long_namespace = f"/n/{'t' * 255}/{'n' * 255}"
    addresses: tuple[str, ...] = (
        *policies,
        long_namespace,
        f"{long_namespace}/policies",
        "/",
        "/topics",
        topic,
        f"{topic}?tab=producers",
        f"{topic}?tab=ledgers",
        long_names,
        "/consumers",
        "/producers",
    )
    addresses += ("/bookmarks", f"{topic}?tab=bookmarks", f"{topic}/choose/reset", "/topics/new")
    addresses += tuple(f"{topic}/act/{name}" for name in ("publish", "bookmark", "partitions", "delete"))
    addresses += (f"{topic}/m/{shop.sealed.pk}:6/again", f"{topic}/messages?start=oldest")
    addresses += (
        f"{topic}/messages?column=%24.order&column=key&column=property:{LONG}",
        f"{topic}/messages/compare?a={shop.sealed.pk}:5&b={shop.sealed.pk}:6",
    )
    for owner in User.objects.filter(username__in=("ada", LONG[:150])):
        for path in ("/topics", f"{topic}/messages"):
            SavedView.objects.create(user=owner, path=path, name=LONG[:80], query=f"q={LONG}", shared_in="*")
    addresses += ("/views", f"{topic}/messages/follow?prop={LONG}")
    letters = f"/dlq/persistent/public/default/{LONG}-{LONG}-DLQ"
    addresses += (f"{topic}?tab=pulls", "/dlq", letters, f"{long_names}/act/redrive")
    run = f"/pipeline/runs/{PipelineRun.objects.get().pk}"
    jobs = ("/pipeline", run, f"/pipeline/jobs/replay?topic={LONG}&option_where={LONG}")
    addresses += (*jobs, f"{topic}?tab=insights", f"{topic}?tab=compaction")
    addresses += (
        "/alerts",
        f"/alerts/{AlertRule.objects.get().pk}",
        "/users",
        f"/users/u/{LONG[:150]}",
        "/account",
    )
    acts = tuple(f"/acts/{act.pk}" for act in Act.objects.all())
    for address in (*addresses, f"{long_names}/act/reset", "/acts", *acts, f"{topic}-not"):
        page.goto(address)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (address, width)
            assert page.evaluate(OVERLAPS) == [], (address, width)


def test_names_keep_their_case(page: Page, long_names: str) -> None:
    page.goto(long_names)
    assert page.inner_text("h1") == LONG
    transform = "[...new Set([...document.querySelectorAll('*')].map((each) => getComputedStyle(each).textTransform))]"
    assert page.evaluate(transform) == ["none"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_header_never_covers_the_notice(page: Page, width: int, long_names: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    BrokerProcess.objects.update(seen_at=now().replace(year=2020))
    page.goto(long_names)
    for scroll in (0, 400):
        page.evaluate(f"window.scrollTo(0, {scroll})")
        box = page.evaluate("document.querySelector('.notice').getBoundingClientRect().toJSON()")
        assert 0 <= box["y"] < 900
        at = f"document.elementFromPoint({box['x'] + 30}, {box['y'] + box['height'] / 2}).closest('.notice') !== null"
        assert page.evaluate(at), scroll
