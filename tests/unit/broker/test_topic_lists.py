"""Watched lists of topics: what watchers hear, and lists that nobody watches any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.core.topic_pattern import TopicPattern
from broker.tasks import BackgroundTasks
from broker.topics.lists import topic_lists
from broker.topics.lists.topic_lists import TopicLists, TopicListWatch, matching
from tests.support.waiting import until

EU = "persistent://shop/eu/"


class Watched:
    """Topic lists over a set of names, and what each watcher has heard."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.reads = 0
        self.faults = 0  # how many of the next reads fail
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.tasks = BackgroundTasks()
        self.lists = TopicLists(self._read, self.tasks)

    async def _read(self, tenant: str, namespace: str) -> list[str]:
        self.reads += 1
        if self.faults:
            self.faults -= 1
            raise RuntimeError("the list cannot be read")
        found = [each for each in self.names if each.startswith(f"persistent://{tenant}/{namespace}/")]
        await self.may_read.wait()
        return found

    async def watch(self, pattern: str, heard: list[tuple[set[str], set[str]]]) -> TopicListWatch:
        return await self.lists.watch(
            "shop/eu", TopicPattern(pattern), lambda added, removed: heard.append((set(added), set(removed)))
        )


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(topic_lists, "_PAUSE_S", 0.0)
    monkeypatch.setattr(topic_lists, "_RETRY_S", 0.0)
    found = Watched()
    yield found
    await found.tasks.stop()


async def test_a_watcher_hears_what_its_pattern_chooses(watched: Watched) -> None:
    watched.names = {f"{EU}orders", f"{EU}bills"}
    heard: list[tuple[set[str], set[str]]] = []
    watch = await watched.watch("shop/eu/ord.*", heard)
    assert watch.names == {f"{EU}orders"}
    watched.names = {f"{EU}ordinals", f"{EU}more-bills"}
    watched.lists.changed("shop/eu")
    await until(lambda: bool(heard), "an update")
    assert heard == [({f"{EU}ordinals"}, {f"{EU}orders"})]
    assert watch.names == {f"{EU}ordinals"}


async def test_watchers_with_one_pattern_share_a_list_and_others_hear_nothing_of_it(
    watched: Watched,
) -> None:
    heard: list[list[tuple[set[str], set[str]]]] = [[], [], []]
    first = await watched.watch("shop/eu/a.*", heard[0])
    second = await watched.watch("shop/eu/a.*", heard[1])
    await watched.watch("shop/eu/b.*", heard[2])
    assert watched.reads == 1
    watched.names = {f"{EU}a1"}
    watched.lists.changed("shop/eu")
    await until(lambda: bool(heard[1]), "an update")
    assert first.names is second.names
    assert heard == [[({f"{EU}a1"}, set())], [({f"{EU}a1"}, set())], []]


async def test_many_changes_during_a_read_cause_one_more_read(watched: Watched) -> None:
    heard: list[tuple[set[str], set[str]]] = []
    await watched.watch("shop/eu/.*", heard)
    watched.may_read.clear()
    watched.lists.changed("shop/eu")
    await until(lambda: watched.reads == 2, "a read")
    watched.names = {f"{EU}{number}" for number in range(100)}
    for _ in range(100):
        watched.lists.changed("shop/eu")
    watched.may_read.set()
    await until(lambda: len(watched.tasks) == 0, "the end of the reads")
    assert watched.reads == 3
    assert heard == [(watched.names, set())]


async def test_a_change_is_passed_on_although_the_list_could_not_be_read_at_once(watched: Watched) -> None:
    heard: list[tuple[set[str], set[str]]] = []
    await watched.watch("shop/eu/.*", heard)
    watched.names, watched.faults = {f"{EU}orders"}, 2
    watched.lists.changed("shop/eu")
    await until(lambda: len(watched.tasks) == 0, "the end of the reads")
    assert heard == [(watched.names, set())]
    assert watched.reads == 4


async def test_a_list_that_nobody_watches_any_more_is_forgotten(watched: Watched) -> None:
    heard: list[tuple[set[str], set[str]]] = []
    watch = await watched.watch("shop/eu/.*", heard)
    watch.detach()
    watch.detach()
    watched.names = {f"{EU}orders"}
    watched.lists.all_changed()
    assert (len(watched.tasks), heard) == (0, [])
    assert (await watched.watch("shop/eu/.*", heard)).names == {f"{EU}orders"}


async def test_a_change_during_the_first_read_is_not_missed(watched: Watched) -> None:
    heard: list[tuple[set[str], set[str]]] = []
    watched.may_read.clear()
    opening = asyncio.create_task(watched.watch("shop/eu/.*", heard))
    await until(lambda: watched.reads == 1, "a read")
    watched.names = {f"{EU}orders"}
    watched.lists.changed("shop/eu")
    watched.may_read.set()
    watch = await opening
    await until(lambda: watch.names == {f"{EU}orders"}, "the new list")


async def turns_of_telling(watched: Watched) -> set[int]:
    """Return the turns of the loop in which six watchers hear of a change."""
    turn = 0
    told: list[int] = []

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(told) < 6:
            asyncio.get_running_loop().call_soon(count)

    for pattern in ("shop/eu/.*", "shop/eu/a.*") * 3:
        await watched.lists.watch("shop/eu", TopicPattern(pattern), lambda added, removed: told.append(turn))
    count()
    watched.names = {f"{EU}a"}
    watched.lists.changed("shop/eu")
    await until(lambda: len(told) == 6, "six updates")
    return set(told)


async def test_telling_watchers_lets_the_loop_work_in_between(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_lists, "_SLICE_S", -1.0)  # each update takes longer than a slice
    assert len(await turns_of_telling(watched)) == 6


async def test_watchers_that_are_told_quickly_do_not_wait_for_one_turn_each(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_lists, "_SLICE_S", 3600.0)
    assert len(await turns_of_telling(watched)) == 1


async def test_matching_lets_the_loop_work_in_between() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(turn())
    names = [f"{EU}{number}" for number in range(3000)]
    assert await matching(TopicPattern("shop/eu/.*9"), names) == [each for each in names if each[-1] == "9"]
    other.cancel()
    assert turns > 3
