"""Who may attach (semantics 3.1)."""

from __future__ import annotations

import pytest

from broker.core.dispatchers.choice import dispatcher_for
from broker.core.errors import BrokerError, ConsumerBusy, NotAllowed, SubscriptionBusy
from broker.core.subscription import SubscriptionType, check_attach, check_name

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


@pytest.mark.parametrize(
    ("wanted", "current", "consumers", "refusal"),
    [
        (EXCLUSIVE, None, 0, None),
        (EXCLUSIVE, SHARED, 0, None),
        (SHARED, EXCLUSIVE, 0, None),
        (SHARED, SHARED, 5, None),
        (EXCLUSIVE, EXCLUSIVE, 1, ConsumerBusy),
        (EXCLUSIVE, SHARED, 1, SubscriptionBusy),
        (SHARED, EXCLUSIVE, 1, SubscriptionBusy),
        (SHARED, SHARED, 6, ConsumerBusy),
    ],
)
def test_attach_rules(
    wanted: SubscriptionType,
    current: SubscriptionType | None,
    consumers: int,
    refusal: type[BrokerError] | None,
) -> None:
    if refusal is None:
        check_attach(wanted, current=current, consumers=consumers, max_consumers=6)
        return
    with pytest.raises(refusal):
        check_attach(wanted, current=current, consumers=consumers, max_consumers=6)


@pytest.mark.parametrize("wanted", [SubscriptionType.FAILOVER, SubscriptionType.KEY_SHARED])
def test_types_without_a_dispatcher_are_named(wanted: SubscriptionType) -> None:
    with pytest.raises(NotAllowed, match=wanted.value):
        check_attach(wanted, current=None, consumers=0)
    with pytest.raises(NotAllowed, match=wanted.value):
        dispatcher_for(wanted)


def test_compacted_reads_need_a_single_consumer_and_a_stored_topic() -> None:
    check_attach(EXCLUSIVE, current=None, consumers=0, read_compacted=True)
    with pytest.raises(NotAllowed, match="readCompacted"):
        check_attach(SHARED, current=None, consumers=0, read_compacted=True)
    with pytest.raises(NotAllowed, match="readCompacted"):
        check_attach(EXCLUSIVE, current=None, consumers=0, read_compacted=True, persistent=False)


@pytest.mark.parametrize("name", ["", "__compaction", "pulsar.dedup", "pulsar.repl.eu"])
def test_reserved_names(name: str) -> None:
    with pytest.raises(NotAllowed):
        check_name(name)


def test_ordinary_names() -> None:
    check_name("billing")
    assert SubscriptionType("Key_Shared") is SubscriptionType.KEY_SHARED
