"""vela.options: the same names and numbers as Apache's client, and choices that cannot work are refused."""

from __future__ import annotations

import enum
import json

import _pulsar
import pytest

from vela import errors, loggers, options
from vela.options import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    KeySharedMode,
)
from vela.schema import SchemaType

ENUMS = [
    getattr(options, name)
    for name in options.__all__
    if issubclass(getattr(options, name), enum.Enum)
    and name != "HashingScheme"  # Apache's Python client does not export it
]


@pytest.mark.parametrize("ours", ENUMS, ids=lambda choice: choice.__name__)
def test_enumerations_have_apaches_members_and_numbers(ours: type[enum.IntEnum]) -> None:
    theirs = getattr(_pulsar, ours.__name__).__members__
    assert {member.name: int(member) for member in ours} == {
        name: int(value) for name, value in theirs.items()
    }


@pytest.mark.parametrize(
    "ours", [*ENUMS, errors.Result, loggers.LoggerLevel, SchemaType], ids=lambda choice: choice.__name__
)
def test_enumeration_members_print_as_apaches_do(ours: type[enum.IntEnum]) -> None:
    for member in ours:
        theirs = getattr(getattr(_pulsar, ours.__name__), member.name, None)
        text = f"{ours.__name__}.{member.name}"
        assert (str(member), f"{member}", "%s" % member) == (text,) * 3  # noqa: UP031 - each calls another method
        assert repr(member) == f"<{text}: {int(member)}>"
        if theirs is not None:  # two members of SchemaType are missing in Apache's client
            assert (str(theirs), f"{theirs}", repr(theirs)) == (text, text, repr(member))


def test_enum_members_are_still_numbers() -> None:
    shared = options.ConsumerType.Shared
    assert (f"{shared:d}", f"{shared:>20}", "%d" % shared) == ("1", " ConsumerType.Shared", "1")  # noqa: UP031
    assert json.dumps([shared]) == "[1]"
    assert shared == 1
    assert str(options.HashingScheme.JavaStringHash) == "HashingScheme.JavaStringHash"


def test_schema_types_have_apaches_numbers() -> None:
    theirs = {name: int(value) for name, value in _pulsar.SchemaType.__members__.items()}
    assert {kind.name: int(kind) for kind in SchemaType}.items() <= theirs.items()


def test_sticky_needs_ranges_that_do_not_overlap() -> None:
    policy = ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=[(100, 65535), (0, 99)])
    assert policy.sticky_ranges == ((100, 65535), (0, 99))
    with pytest.raises(ValueError, match="sticky_ranges"):
        ConsumerKeySharedPolicy(KeySharedMode.Sticky)
    for bad in ([(0, 65536)], [(-1, 5)], [(5, 4)], [(0, 10), (10, 20)]):
        with pytest.raises(ValueError, match="must not overlap"):
            ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=bad)


def test_a_dead_letter_policy_needs_a_count() -> None:
    policy = ConsumerDeadLetterPolicy(3)
    assert (policy.max_redeliver_count, policy.dead_letter_topic, policy.initial_subscription_name) == (
        3,
        None,
        None,
    )
    with pytest.raises(ValueError, match="at least 1"):
        ConsumerDeadLetterPolicy(0)


def test_batch_receive_needs_a_limit() -> None:
    policy = ConsumerBatchReceivePolicy()
    assert (policy.max_num_message, policy.max_num_bytes, policy.timeout_ms) == (-1, 10 * 1024 * 1024, 100)
    with pytest.raises(ValueError, match="at least one"):
        ConsumerBatchReceivePolicy(-1, -1, -1)
