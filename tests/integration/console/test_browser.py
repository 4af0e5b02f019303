"""The pages in a real Chromium: no console error, calm refreshing, keys. Without scripts: the other files here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils.timezone import now
from playwright.sync_api import Browser, BrowserContext, Page

from broker.models import Act, ConsumerSession, Cursor
from config.environment import PROJECT_DIR
from tests.integration.console.shop import Shop
from tests.support.browser import chromium as chromium
from tests.support.plans import a_plan
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

ORDERS = "/t/persistent/public/default/orders"
BILLING = f"{ORDERS}/s/billing"
WORDS = "document.querySelector('#part-numbers .words')"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedConsole:
    """A console's process and its address."""

    url: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def console(shop: Shop) -> Iterator[StartedConsole]:
    """A started console over the test's database."""
    port = free_ports(1)[0]
    at = connection.settings_dict
    process = subprocess.Popen(
        [sys.executable, "manage.py", "runconsole", "--bind", "127.0.0.1", "--port", str(port)],
        cwd=PROJECT_DIR,
        env={
            **os.environ,
            "VELA_SECRET_KEY": settings.SECRET_KEY,  # both must read the same session
            "DATABASE_URL": f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}",
        },
    )
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urlopen(f"{url}/healthz", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    try:
        wait_until(answers, "the console", timeout_s=60)
        yield StartedConsole(url=url, process=process)
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def console_url(console: StartedConsole) -> str:
    """Where its pages are."""
    return console.url


@pytest.fixture
def errors() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture
def page(chromium: Browser, console_url: str, errors: list[str]) -> Iterator[Page]:
    """A logged-in operator's window."""
    person = Client()
    person.force_login(User.objects.create_user("ada", is_staff=True))
    context: BrowserContext = chromium.new_context(base_url=console_url)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    context.add_cookies(
        [{"name": "sessionid", "value": person.cookies["sessionid"].value, "url": console_url}]
    )
    page.goto("/topics")
    yield page
    context.close()
    assert errors == []


def tell(shop: Shop) -> None:
    """What the owner says after something changed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('vela_page', %s)", [json.dumps([f"sub:{shop.billing.pk}"])])


def ack_one(shop: Shop) -> None:
    """One message less."""
    cursor = Cursor.objects.get(pk=shop.billing.pk)
    cursor.acked_messages += 1
    cursor.save()
    tell(shop)


def open_live(page: Page) -> None:
    """The subscription's page, once its stream is open and the first look is over."""
    with page.expect_response(lambda response: "part=next" in response.url):
        page.goto(BILLING)
    page.wait_for_selector(".pulse.on")


def test_a_change_repaints_its_block_and_a_quiet_one_stays(page: Page, shop: Shop) -> None:
    open_live(page)
    page.evaluate("window.consumers = document.querySelector('#part-consumers section')")
    ack_one(shop)
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")
    assert page.evaluate("window.consumers.isConnected")


def test_a_repaint_never_eats_a_selection(page: Page, shop: Shop) -> None:
    open_live(page)
    page.evaluate(f"getSelection().selectAllChildren({WORDS})")
    chosen = page.evaluate("getSelection().toString()")
    with page.expect_response(lambda response: "part=consumers" in response.url):
        ack_one(shop)
    assert page.evaluate("getSelection().toString()") == chosen
    assert f"{shop.backlog} left" in page.inner_text("#part-numbers")
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")


def test_a_paused_page_stays(page: Page, shop: Shop) -> None:
    open_live(page)
    page.keyboard.press("p")
    assert page.input_value("[data-refresh]") == "off"
    ack_one(shop)
    assert f"{shop.backlog} left" in page.inner_text("#part-numbers")
    page.keyboard.press("p")
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")


def test_what_changed_while_a_page_was_paused_is_shown_when_it_goes_on(page: Page, shop: Shop) -> None:
    open_live(page)
    page.keyboard.press("p")
    ack_one(shop)
    page.keyboard.press("p")
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 1} left')")
    ack_one(shop)
    page.wait_for_selector(f"#part-numbers :text('{shop.backlog - 2} left')")


def test_the_page_of_a_waiting_act_turns_into_its_answer(page: Page, shop: Shop) -> None:
    act = Act.objects.create(
        kind="reset",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=shop.topic.name,
        subscription_name="billing",
        parameters={"to": "earliest"},
        who="ada",
        origin="console 127.0.0.1",
        requested_at=now(),
        state="plan_requested",
    )
    page.goto(f"/acts/{act.pk}")
    assert "The broker has not answered yet" in page.inner_text(".note")
    page.wait_for_selector(".pulse.on")
    act.state, act.plan = "planned", a_plan()
    act.save()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('vela_act_done', %s)", [str(act.pk)])
    page.wait_for_selector("form.apply")


def test_a_session_that_ended_leads_to_the_login(page: Page, shop: Shop) -> None:
    open_live(page)
    Session.objects.all().delete()
    tell(shop)
    page.wait_for_url(lambda url: "/login?next=" in url)


def test_a_console_that_stops_ends_its_streams(
    page: Page, console: StartedConsole, errors: list[str], shop: Shop
) -> None:
    open_live(page)
    console.process.terminate()
    console.process.wait(10)  # a stream never ends by itself
    page.wait_for_selector(".pulse.lost")
    errors.clear()  # the lost stream is in the browser's log


def test_rewinding_by_keyboard_only(page: Page, shop: Shop) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.evaluate("document.getElementById('keys').open")
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('keys').open")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/acts")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/orders")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/billing")
    page.focus("text=Rewind")
    page.keyboard.press("Enter")
    page.wait_for_url("**/act/rewind")
    page.focus("#messages")
    page.keyboard.type("2")
    # Enter asks for the messages that were typed, not for the first preset above them.
    page.keyboard.press("Enter")
    page.wait_for_url("**/acts/*")
    assert "Rewind by 2 messages" in page.inner_text("h1").replace("\u202f", " ")
    assert "The broker has not answered yet" in page.inner_text(".note")


def test_a_reset_that_was_refused_offers_its_new_plan(page: Page, errors: list[str], shop: Shop) -> None:
    subject: dict[str, Any] = {
        "kind": "reset",
        "topic": shop.topic,
        "subscription": shop.billing,
        "topic_name": shop.topic.name,
        "subscription_name": "billing",
        "parameters": {"to": "earliest"},
        "who": "ada",
        "origin": "console 127.0.0.1",
        "requested_at": now(),
    }
    new_plan = Act.objects.create(**subject, state="planned", plan=a_plan(replayed_messages=889))
    Act.objects.create(
        **subject,
        state="refused",
        plan=a_plan(),
        error="889 messages would be delivered again, the plan showed 4 and allowed for 60 more;"
        " look at the new preview",
        error_code="ActConflict",
        result={"new_plan": new_plan.pk},
    )
    page.goto("/acts")
    page.click("a.name")
    assert "889 messages would be delivered again" in page.inner_text(".note.bad")
    page.set_viewport_size({"width": 420, "height": 1400})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.input_value("#allowed-drift") == "60"
    page.fill("#allowed-drift", "10000")
    page.click("button.primary")
    page.wait_for_selector("#confirm")
    assert [" 422 " in each for each in errors] == [True]  # Chromium logs the status of the form's page
    errors.clear()
    assert page.input_value("#allowed-drift") == "10000"
    page.fill("#confirm", "billing")
    page.click("button.primary")
    page.wait_for_url(f"**/acts/{new_plan.pk}")
    assert "The broker has not answered yet" in page.inner_text(".note")
    new_plan.refresh_from_db()
    assert (new_plan.plan or {})["allowed_drift_messages"] == 10_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_spills_over_a_narrow_window(page: Page, theme: str, shop: Shop) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    for address in (
        "/topics",
        BILLING,
        f"{BILLING}/act/reset",
        "/acts",
        ORDERS,
        f"{ORDERS}/messages?sub=billing",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 420, address


def test_a_cure_opens_its_form_filled_in(page: Page, shop: Shop) -> None:
    ConsumerSession.objects.update(blocked=False, permits=5, writable=True)
    page.goto(BILLING)
    page.click("#part-why a:text('Skip only this message')")
    page.wait_for_url("**/act/skip_one?id=*")
    assert page.input_value("#id") == f"{shop.sealed.pk}:5"


def test_a_long_name_in_a_finding_does_not_spill_over_a_phone(page: Page, shop: Shop) -> None:
    ConsumerSession.objects.update(name="c" * 300)
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(BILLING)
    assert "c" * 300 in page.inner_text("#part-why .words >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
