"""The model run on each subscription type."""

from __future__ import annotations

from hypothesis.stateful import run_state_machine_as_test

from tests.model.exclusive import ExclusiveMachine
from tests.model.failover import FailoverMachine
from tests.model.key_shared import KeySharedMachine
from tests.model.shared import SharedMachine
from tests.support.examples import model_settings


def test_i1_i2_i3_i5_i6_i7_i8_i13_i14_i18_i21_shared_against_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(SharedMachine, settings=model_settings(examples=80))


def test_i1_i2_i3_i4_i5_i7_i11_i14_i18_i21_exclusive_against_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(ExclusiveMachine, settings=model_settings(examples=80))


def test_i1_i2_i3_i5_i6_i7_i8_i9_i13_i14_i18_i21_key_shared_against_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(KeySharedMachine, settings=model_settings(examples=60))


def test_i1_i2_i3_i4_i5_i7_i11_i12_i14_i18_i21_failover_against_a_set_of_acked_messages() -> None:
    run_state_machine_as_test(FailoverMachine, settings=model_settings(examples=60))
