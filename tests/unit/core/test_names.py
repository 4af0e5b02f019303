"""Positions, topic names and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core import errors
from broker.core.errors import BrokerError, InvalidTopicName
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.topic_name import TopicName, parse_namespace


@given(st.integers(-1, 2**63 - 1), st.integers(-1, 2**63 - 1))
def test_a_position_is_read_back_from_its_text(ledger_id: int, entry_id: int) -> None:
    position = Position(ledger_id, entry_id)
    assert Position.parse(str(position)) == position
    assert EARLIEST <= position <= LATEST


@pytest.mark.parametrize("text", ["", "5", "5:", ":1", "a:b", "1:2:3"])
def test_a_text_that_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ledger:entry"):
        Position.parse(text)


@pytest.mark.parametrize(
    ("text", "full", "partition"),
    [
        ("orders", "persistent://public/default/orders", None),
        ("shop/eu/orders", "persistent://shop/eu/orders", None),
        ("non-persistent://shop/eu/ticks", "non-persistent://shop/eu/ticks", None),
        ("-=:._1/..b/...", "persistent://-=:._1/..b/...", None),
        ("a/b/..-partition-01", "persistent://a/b/..-partition-01", None),
        ("persistent://a/b/c-partition-12", "persistent://a/b/c-partition-12", 12),
        ("persistent://a/b/c-partition-012", "persistent://a/b/c-partition-012", None),
        ("persistent://a/b/-partition-1", "persistent://a/b/-partition-1", None),
        (f"{'t' * 255}/{'n' * 255}/x", f"persistent://{'t' * 255}/{'n' * 255}/x", None),
        ("orders-üéñ", "persistent://public/default/orders-üéñ", None),
    ],
)
def test_a_topic_name_is_completed_and_split(text: str, full: str, partition: int | None) -> None:
    name = TopicName.parse(text)
    assert name.full == str(name) == full
    assert name.partition == partition
    assert TopicName.parse(full) == name


def test_a_topic_names_its_partitions() -> None:
    name = TopicName.parse("shop/eu/orders")
    third = name.with_partition(3)
    assert (third.local_name, third.partition, third.base) == ("orders-partition-3", 3, name.full)
    assert third.with_partition(4) == name.with_partition(4)
    assert third.namespace_name == "shop/eu"
    with pytest.raises(InvalidTopicName):
        name.with_partition(-1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "persistent://a/b",
        "persistent://a/cluster/b/c",
        "kafka://a/b/c",
        "persistent:///b/c",
        "persistent://a b/c/d",
        "../../x",
        "a/./x",
        "a/b/",
        "a/b/.",
        "non-persistent://a/b/..",
        "..",
        "a/b/..-partition-0",
        "a/b/c d",
        "a/b/c\n",
        "x" * 1025,
        "é" * 513,
        f"{'t' * 256}/eu/x",
        f"shop/{'n' * 256}/x",
    ],
)
def test_an_invalid_topic_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidTopicName):
        TopicName.parse(text)


def test_a_namespace_is_read_as_tenant_and_name() -> None:
    assert parse_namespace("shop/eu") == ("shop", "eu")
    for text in ("shop", "", "shop/", "/eu", "shop/eu/de", "../..", "shop/.", "sh op/eu", "t" * 256 + "/eu"):
        with pytest.raises(InvalidTopicName):
            parse_namespace(text)


def test_every_error_has_a_code() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BrokerError)
    ]
    assert len(kinds) > 15
    assert [kind for kind in kinds if kind is not BrokerError and kind.code == BrokerError.code] == []
