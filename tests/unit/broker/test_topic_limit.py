"""How much a topic may add to a statement if other topics publish little, and if other topics publish much."""

from __future__ import annotations

from broker.log.scheduling.topic_limit import BESIDE_LIGHT, STATEMENT, Size, TopicLimit

BUSY, ALSO_BUSY, LIGHT = 1, 2, 3
MUCH, LITTLE = Size(8, 1024 * 1024), Size(1, 1000)


def test_a_topic_alone_fills_statements_however_little_it_publishes() -> None:
    limit = TopicLimit()
    for part in (LITTLE, MUCH, LITTLE):
        limit.took(BUSY, part, has_more=False, now_s=1.0)
        assert limit.now(1.0) == STATEMENT


def test_topics_that_all_publish_much_fill_statements() -> None:
    limit = TopicLimit()
    for topic in (BUSY, ALSO_BUSY, BUSY):
        limit.took(topic, MUCH, has_more=False, now_s=1.0)
        assert limit.now(1.0) == STATEMENT


def test_a_light_topic_limits_the_others_until_it_has_not_published_for_a_while() -> None:
    limit = TopicLimit()
    limit.took(BUSY, MUCH, has_more=True, now_s=1.0)
    limit.took(LIGHT, LITTLE, has_more=False, now_s=1.01)
    assert limit.now(1.05) == BESIDE_LIGHT
    limit.took(BUSY, BESIDE_LIGHT, has_more=True, now_s=1.05)
    assert limit.now(1.149) == BESIDE_LIGHT
    assert limit.now(1.151) == STATEMENT


def test_a_part_that_the_limit_cut_is_not_light() -> None:
    limit = TopicLimit()
    limit.took(BUSY, MUCH, has_more=True, now_s=1.0)
    limit.took(ALSO_BUSY, LITTLE, has_more=True, now_s=1.0)
    assert limit.now(1.0) == STATEMENT


def test_many_small_entries_are_not_light() -> None:
    limit = TopicLimit()
    limit.took(BUSY, MUCH, has_more=True, now_s=1.0)
    limit.took(ALSO_BUSY, Size(BESIDE_LIGHT.entries, 1000), has_more=False, now_s=1.0)
    assert limit.now(1.0) == STATEMENT
