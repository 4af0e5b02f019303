"""How long do the console's pages take with a million subscriptions, and with ten million messages in one topic?"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.figures import Figure, Goal, percentile
from bench.load.browser import Browser
from bench.load.many.names import Names, seed
from bench.load.messages import entries
from bench.load.publishing.binary import publish_count
from bench.setting import Setting

__all__ = ["ask"]

TOPICS: Final = 100_000
QUICK_TOPICS: Final = 1_000
MESSAGES: Final = 10_000_000
QUICK_MESSAGES: Final = 100_000
PAYLOAD_BYTES: Final = 100
LOADS: Final = 40  # of each page in a run
_LIST: Final = Goal(at_most=100.0)
_SUBSCRIPTION: Final = Goal(at_most=150.0)
_OVERVIEW: Final = Goal(at_most=200.0)
_BROWSE: Final = Goal(at_most=1000.0)


def ask(setting: Setting) -> list[Figure]:
    """Seed the tables, publish one long topic, and load each page again and again as one logged-in user."""
    names = seed(setting.vela.database_url, topics=setting.sized(TOPICS, QUICK_TOPICS))
    setting.say(
        f"{names.topics:,} topics, {names.subscriptions:,} subscriptions seeded in {names.took_s:.0f} s"
    )
    topic = setting.fresh_topic("long")
    batch = entries.batch(PAYLOAD_BYTES)
    messages = setting.sized(MESSAGES, QUICK_MESSAGES)
    asyncio.run(publish_count(setting.pulsar_port, topic, batch, messages // batch.messages, window=100))
    setting.say(f"{messages:,} messages published to one topic")
    browser = Browser(setting.vela.console_url.removeprefix("http://"))
    browser.log_in(setting.vela.environment["VELA_ADMIN_PASSWORD"])
    figures = []
    for name, address, goal in _pages(names, topic.partition("://")[2]):
        runs = tuple(_p95_ms(browser, address) for _ in range(setting.repeats))
        figures.append(Figure(name=name, unit="ms", runs=runs, goal=goal, note="p95"))
        setting.say(f"{name}: {', '.join(f'{run:.0f}' for run in runs)} ms")
    return figures


def _pages(names: Names, long_topic: str) -> list[tuple[str, str, Goal]]:
    one = f"/t/persistent/{names.topic}"
    parted = f"/t/persistent/{names.partitioned_topic}"
    long = f"/t/persistent/{long_topic}/messages"
    middle = "persistent://tenant-5/team-55/topic-0050055"
    return [
        ("overview", "/", _OVERVIEW),
        *(
            (f"topics by {order}", f"/topics?sort={order}", _LIST)
            for order in ("name", "worst", "backlog", "rate", "last")
        ),
        ("topics by name, from the middle", f"/topics?after={middle}", _LIST),
        ("topics by backlog, from the middle", f"/topics?sort=backlog&after={middle}&value=50000", _LIST),
        ("topics of one namespace", "/topics?ns=tenant-7/team-77", _LIST),
        ("topics, a part of the name", "/topics?q=77077", _LIST),
        (
            "topics by backlog, with a subscription that all have",
            "/topics?sort=backlog&sub=subscription-3",
            _LIST,
        ),
        ("topics, only with backlog", "/topics?backlog=1", _LIST),
        ("topics, only stuck", "/topics?state=stuck", _LIST),
        ("topic", one, _SUBSCRIPTION),
        ("partitioned topic", parted, _SUBSCRIPTION),
        ("subscription", f"{one}/s/{names.subscription}", _SUBSCRIPTION),
        ("subscription of a partitioned topic", f"{parted}/s/{names.subscription}", _SUBSCRIPTION),
        *(
            (f"consumers by {order}", f"/consumers?sort={order}", _LIST)
            for order in ("name", "unacked", "oldest", "since")
        ),
        ("consumers, none with that address", "/consumers?address=nowhere", _LIST),
        ("consumers, only hoarding", "/consumers?flag=hoarding", _LIST),
        *(
            (f"producers by {order}", f"/producers?sort={order}", _LIST)
            for order in ("name", "rate", "since")
        ),
        ("namespaces", "/namespaces", _LIST),
        ("one namespace", "/n/tenant-7/team-77", _SUBSCRIPTION),
        ("dead letters", "/dlq", _LIST),
        ("bookmarks", "/bookmarks", _LIST),
        ("pipeline", "/pipeline", _LIST),
        ("act log", "/acts", _LIST),
        ("messages, the newest", long, _BROWSE),
        ("messages, a key that nobody has", f"{long}?key=nobody", _BROWSE),
        ("messages, a text that nobody has", f"{long}?text=nobody&order=newer&start=oldest", _BROWSE),
    ]


def _p95_ms(browser: Browser, address: str) -> float:
    browser.get(address)
    took_ms = []
    for _ in range(LOADS):
        began = time.perf_counter()
        browser.get(address)
        took_ms.append(1000 * (time.perf_counter() - began))
    return percentile(took_ms, 95)
