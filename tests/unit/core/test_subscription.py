"""Which consumers may attach."""

from __future__ import annotations

import pytest

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.dispatchers.choice import dispatcher_for
from broker.core.errors import BrokerError, ConsumerBusy, NotAllowed, SubscriptionBusy
from broker.core.subscription.types import SubscriptionType, check_attach, check_name

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED
FAILOVER, KEY_SHARED = SubscriptionType.FAILOVER, SubscriptionType.KEY_SHARED


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
        (KEY_SHARED, SHARED, 1, SubscriptionBusy),
        (KEY_SHARED, SHARED, 0, None),
        (FAILOVER, FAILOVER, 5, None),
        (FAILOVER, EXCLUSIVE, 1, SubscriptionBusy),
    ],
)
def test_a_consumer_attaches_only_if_those_connected_allow_it(
    wanted: SubscriptionType,
    current: SubscriptionType | None,
    consumers: int,
    refusal: type[BrokerError] | None,
) -> None:
    if refusal is None:
        check_attach(wanted, current=current, consumers=consumers)
        return
    with pytest.raises(refusal):
        check_attach(wanted, current=current, consumers=consumers)


@pytest.mark.parametrize("wanted", list(SubscriptionType))
def test_every_type_has_a_dispatcher(wanted: SubscriptionType) -> None:
    check_attach(wanted, current=None, consumers=0)
    dispatcher = dispatcher_for(wanted)
    assert dispatcher.attach(DispatchConsumer(key=1, name="c"), wanted)
    other = next(type_ for type_ in SubscriptionType if type_ is not wanted)
    with pytest.raises(SubscriptionBusy):
        dispatcher.attach(DispatchConsumer(key=2, name="d"), other)


def test_compacted_reads_need_a_single_consumer_and_a_stored_topic() -> None:
    check_attach(EXCLUSIVE, current=None, consumers=0, read_compacted=True)
    with pytest.raises(NotAllowed, match="readCompacted"):
        check_attach(SHARED, current=None, consumers=0, read_compacted=True)
    with pytest.raises(NotAllowed, match="readCompacted"):
        check_attach(EXCLUSIVE, current=None, consumers=0, read_compacted=True, persistent=False)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "__compaction", "pulsar.dedup", "pulsar.repl.eu", "x" * 1025, "é" * 513]
)
def test_reserved_and_overlong_names_are_refused(name: str) -> None:
    with pytest.raises(NotAllowed):
        check_name(name)


def test_ordinary_names_are_accepted() -> None:
    check_name("billing")
    check_name("...")
    check_name("é" * 512)
    assert SubscriptionType("Key_Shared") is SubscriptionType.KEY_SHARED
