"""How long do the console's pages take with a million subscriptions, and with ten million messages in one topic?

And how much CPU time does an open page cost?
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.figures import Figure, Goal, percentile
from bench.load.browser import Browser, opened
from bench.load.end_to_end import binary_latency
from bench.load.many.names import Names, seed
from bench.load.messages import entries
from bench.load.open_loop import run_exactly
from bench.load.publishing.binary import publish_count
from bench.setting import Setting
from bench.usage import cpu_s, postgres_cpu_s

__all__ = ["ask"]

TOPICS: Final = 100_000
QUICK_TOPICS: Final = 1_000
MESSAGES: Final = 10_000_000
QUICK_MESSAGES: Final = 100_000
PAYLOAD_BYTES: Final = 100
LOADS: Final = 40  # of each page in a run
PER_S: Final = 100.0  # messages, while a page is open
_OPEN_S: Final = 30.0
_QUICK_OPEN_S: Final = 5.0
_READS: Final = "performance.getEntriesByType('resource').filter(each => /[?&]part=/.test(each.name)).length"
_OPEN: Final = Goal(at_most=2.0)
_LIST: Final = Goal(at_most=100.0)
_SUBSCRIPTION: Final = Goal(at_most=150.0)
_OVERVIEW: Final = Goal(at_most=200.0)
_BROWSE: Final = Goal(at_most=1000.0)


def ask(setting: Setting) -> list[Figure]:
    """Leave a page open. Then seed the tables, publish one long topic, and load each page again and again."""
    figures = _open_page(setting)
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


def _open_page(setting: Setting) -> list[Figure]:
    """Measure each process without and with the page of a subscription that gets 100 messages a second."""
    topic = setting.fresh_topic("open")
    page_of = f"/t/persistent/{topic.partition('://')[2]}/s/latency"
    alone: list[Mapping[str, float]] = []
    beside: list[Mapping[str, float]] = []
    note = ""
    _percent_of_core(setting, topic, time.sleep)  # makes the subscription, and fills caches
    for _ in range(setting.repeats):
        alone.append(_percent_of_core(setting, topic, time.sleep))
        password = setting.vela.environment["VELA_ADMIN_PASSWORD"]
        with opened(setting.vela.console_url, password, page_of) as page:
            beside.append(
                _percent_of_core(setting, topic, lambda pause_s: page.wait_for_timeout(1000 * pause_s))
            )
            note = f"the page read its blocks {page.evaluate(_READS)} times"
        setting.say(f"open page: alone {alone[-1]}, beside {beside[-1]}; {note}")
    name = f"a subscription's page open, {PER_S:.0f} msg/s"
    return [
        Figure(
            name=f"{name}: console",
            unit="% core",
            runs=tuple(run["console"] for run in beside),
            goal=_OPEN,
            note=note,
        ),
        *(
            Figure(
                name=f"  {process}, more than without a page",
                unit="% core",
                runs=tuple(
                    with_[process] - without[process] for without, with_ in zip(alone, beside, strict=True)
                ),
            )
            for process in ("console", "broker", "postgresql")
        ),
    ]


def _percent_of_core(setting: Setting, topic: str, wait: Callable[[float], None]) -> Mapping[str, float]:
    """Return the percentage of a core that each process uses while messages of 1 KB go through a topic."""
    run_s = _QUICK_OPEN_S if setting.is_quick else _OPEN_S
    load = binary_latency(
        setting.pulsar_port, topic, payload_bytes=1024, per_s=PER_S, warm_up_s=setting.warm_up_s, run_s=run_s
    )
    with ThreadPoolExecutor(1) as thread:  # Playwright needs this thread
        sent = thread.submit(run_exactly, load)
        wait(setting.warm_up_s)
        before, began_s = _used_s(setting), time.perf_counter()
        wait(run_s)
        took_s, after = time.perf_counter() - began_s, _used_s(setting)
        sent.result()
    return {name: round(100 * (after[name] - before[name]) / took_s, 2) for name in after}


def _used_s(setting: Setting) -> Mapping[str, float]:
    pids = setting.vela.pids()
    return {
        "console": cpu_s(pids["console"], ended_children=False),
        "broker": cpu_s(pids["broker"], ended_children=False),
        "postgresql": postgres_cpu_s(pids["postgresql"]),
    }
