"""The model run on each subscription type."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.exclusive import ExclusiveMachine
from tests.model.failover import FailoverMachine
from tests.model.key_shared import KeySharedMachine
from tests.model.partitioned import PartitionedMachine
from tests.model.shared import SharedMachine
from tests.support.examples import model_settings


@pytest.mark.row("I1", "I2", "I3", "I5", "I6", "I7", "I8", "I13", "I14", "I18", "I21")
def test_shared_agrees_with_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(SharedMachine, settings=model_settings(examples=80))


@pytest.mark.row("I1", "I2", "I3", "I4", "I5", "I7", "I11", "I14", "I18", "I21")
def test_exclusive_agrees_with_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(ExclusiveMachine, settings=model_settings(examples=80))


@pytest.mark.row("I1", "I2", "I3", "I5", "I6", "I7", "I8", "I9", "I13", "I14", "I18", "I21")
def test_key_shared_agrees_with_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(KeySharedMachine, settings=model_settings(examples=60))


@pytest.mark.row("I1", "I2", "I3", "I4", "I5", "I7", "I11", "I12", "I14", "I18", "I21")
def test_failover_agrees_with_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(FailoverMachine, settings=model_settings(examples=60))


@pytest.mark.row("I2", "I5", "I14")
def test_acts_on_partitions_agree_with_a_set_of_acked_messages_for_each() -> None:
    run_state_machine_as_test(PartitionedMachine, settings=model_settings(examples=70, steps=15))
