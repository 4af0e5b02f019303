"""Open pages in a real Chromium say within seconds that a process behind them is frozen, and recover by themselves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pulsar
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.support.browser import chromium as chromium
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, children_of
from tests.support.waiting import wait_until

SOON_MS = 15_000  # Vela promises 5 s; the rest is for a busy machine
SUBSCRIPTION = "/t/persistent/public/default/frozen/s/billing"
BADGE = "getComputedStyle(document.querySelector('.badge.judged'), '::before').content"


@pytest.fixture(scope="module")
def topic(shared_vela: VelaProcess) -> Iterator[None]:
    """A topic with a subscription, a connected consumer and a backlog."""
    client = pulsar.Client(shared_vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe("frozen", "billing", receiver_queue_size=1)
    producer = client.create_producer("frozen")
    for number in range(5):
        producer.send(str(number).encode())
    yield
    consumer.close()
    client.close()


@pytest.fixture(scope="module")
def opened(chromium: Browser, shared_vela: VelaProcess, topic: None) -> Iterator[tuple[Page, Page]]:
    """Two open pages: the list of topics, which other tests may have filled, and a subscription's page."""
    context: BrowserContext = chromium.new_context(base_url=shared_vela.console_url)
    context.set_default_timeout(30_000)
    listed, shown = context.new_page(), context.new_page()
    listed.goto("/login?next=/topics%3Fq%3Dfrozen")
    listed.fill("#id_username", "admin")
    listed.fill("#id_password", ADMIN_PASSWORD)
    listed.click("button.primary")
    listed.wait_for_selector("text=frozen")
    shown.goto(SUBSCRIPTION)
    yield listed, shown
    context.close()


@pytest.fixture
def pages(opened: tuple[Page, Page]) -> tuple[Page, Page]:
    """Both pages, live and without a notice."""
    for page in opened:
        page.wait_for_selector(".pulse.on")
    recover(opened)
    return opened


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stop processes with SIGSTOP while the block runs, then continue them."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def pid_of(vela: VelaProcess, name: str) -> int:
    return wait_until(lambda: vela.pids().get(name, 0), f"a process {name}")


def say(pages: tuple[Page, Page], words: str) -> None:
    for page in pages:
        page.wait_for_selector(f".notice:has-text('{words}')", timeout=SOON_MS)


def recover(pages: tuple[Page, Page]) -> None:
    for page in pages:
        page.wait_for_selector(".notice", state="detached", timeout=SOON_MS)
        page.wait_for_selector("body:not(.unsure, .unread)", timeout=SOON_MS)


def test_pages_say_that_a_frozen_broker_is_silent(shared_vela: VelaProcess, pages: tuple[Page, Page]) -> None:
    subscription = pages[1]
    with frozen(pid_of(shared_vela, "broker")):
        say(pages, "The broker is silent")
        assert "unknown" in subscription.evaluate(BADGE)
        subscription.wait_for_selector(".part-age:visible")
    recover(pages)
    assert subscription.evaluate(BADGE) == "none"


def test_pages_say_that_a_frozen_database_does_not_answer(
    shared_vela: VelaProcess, pages: tuple[Page, Page]
) -> None:
    server = pid_of(shared_vela, "postgresql")
    with frozen(server, *children_of(server)):
        say(pages, "The database does not answer")
        assert "unknown" in pages[1].evaluate(BADGE)
    recover(pages)


def test_pages_say_that_a_frozen_beat_is_silent(shared_vela: VelaProcess, pages: tuple[Page, Page]) -> None:
    with frozen(pid_of(shared_vela, "beat")):
        say(pages, "Celery beat is silent")
        assert pages[1].evaluate(BADGE) == "none"
    recover(pages)


def test_pages_say_that_a_frozen_tick_worker_is_silent(
    shared_vela: VelaProcess, pages: tuple[Page, Page]
) -> None:
    with frozen(pid_of(shared_vela, "worker-tick")):
        say(pages, "tick worker is silent")
    recover(pages)


def test_pages_say_that_a_frozen_console_does_not_answer(
    shared_vela: VelaProcess, pages: tuple[Page, Page]
) -> None:
    with frozen(pid_of(shared_vela, "console")):
        say(pages, "This page cannot reach the console")
        assert "unknown" in pages[1].evaluate(BADGE)
    recover(pages)
