"""The values of a form become the parameters of an act, or an error that says what to change."""

from __future__ import annotations

from typing import Any

import pytest

from console.forms import (
    ActForm,
    ApplyForm,
    DisconnectForm,
    PauseForm,
    RedeliverForm,
    RedriveForm,
    ResetForm,
    RewindForm,
    SendToDeadLettersForm,
    SkipForm,
    SkipOneForm,
    act_forms,
)
from console.topic_forms.places import CreateSubscriptionForm


@pytest.mark.parametrize(
    ("form_class", "filled", "parameters"),
    [
        (RewindForm, {"back": "15m"}, {"to": "back_time", "back_ms": 900_000}),
        (RewindForm, {"back": "1h", "messages": ""}, {"to": "back_time", "back_ms": 3_600_000}),
        (RewindForm, {"messages": "500"}, {"to": "shift", "messages": -500}),
        (ResetForm, {"to": "earliest"}, {"to": "earliest"}),
        (ResetForm, {"to": "latest", "time": "", "id": ""}, {"to": "latest"}),
        (ResetForm, {"to": "time", "time": "1970-01-01 00:00:01.5"}, {"to": "time", "time_ms": 1500}),
        (ResetForm, {"to": "time", "time": "1970-01-01T01:00:01+01:00"}, {"to": "time", "time_ms": 1000}),
        (ResetForm, {"to": "id", "id": " 3:77 "}, {"to": "id", "id": "3:77", "inclusive": True}),
        (
            ResetForm,
            {"to": "id", "id": "3:77:-1:2", "start": "after"},
            {"to": "id", "id": "3:77:-1:2", "inclusive": False},
        ),
        (ResetForm, {"to": "id", "id": "3:77:2"}, {"to": "id", "id": "3:77:-1:2", "inclusive": True}),
        (SkipOneForm, {"id": "3:77:2"}, {"id": "3:77:-1:2"}),
        (SkipOneForm, {"id": "3:77:-1"}, {"id": "3:77"}),
        (SkipOneForm, {"id": "3:77:1:2"}, {"id": "3:77:1:2"}),
        (SendToDeadLettersForm, {"id": "3:77:2"}, {"id": "3:77:-1:2"}),
        (RedriveForm, {"id": "3:77:2"}, {"id": "3:77:-1:2"}),
        (
            CreateSubscriptionForm,
            {"name": "n", "type": "Shared", "to": "id", "id": "3:77:2"},
            {"name": "n", "type": "Shared", "to": "id", "id": "3:77:-1:2", "inclusive": True},
        ),
        (SkipForm, {"messages": "12"}, {"messages": 12}),
        (SendToDeadLettersForm, {"id": "3:77"}, {"id": "3:77"}),
        (
            SendToDeadLettersForm,
            {"id": "3:77", "to_topic": "dead"},
            {"id": "3:77", "to_topic": "persistent://public/default/dead"},
        ),
        (RedriveForm, {}, {}),
        (
            RedriveForm,
            {
                "id": "3:7",
                "property_name": " a",
                "property_value": "b ",
                "after_ms": "1970-01-01 00:00:01",
                "rate": "0",
            },
            {"id": "3:7", "property_name": " a", "property_value": "b ", "after_ms": 1000, "rate": 0},
        ),
        (PauseForm, {}, {}),
        (DisconnectForm, {"consumer": "c"}, {"consumer": "c"}),
        (DisconnectForm, {"consumer": "c "}, {"consumer": "c "}),
        (RedeliverForm, {"consumer": "c" * 1024}, {"consumer": "c" * 1024}),
    ],
)
def test_valid_forms_become_parameters(
    form_class: type[ActForm], filled: dict[str, str], parameters: dict[str, Any]
) -> None:
    form = form_class(filled)
    assert form.is_valid(), form.errors
    assert form.parameters() == parameters


@pytest.mark.parametrize(
    ("form_class", "filled", "field"),
    [
        (SendToDeadLettersForm, {}, "id"),
        (SendToDeadLettersForm, {"id": "3"}, "id"),
        (SendToDeadLettersForm, {"id": "3:7", "to_topic": "a//b"}, "to_topic"),
        (RedriveForm, {"id": "x"}, "id"),
        (RedriveForm, {"property_value": "x"}, "property_name"),
        (RedriveForm, {"after_ms": "soon"}, "after_ms"),
        (RedriveForm, {"most": "0"}, "most"),
        (RedeliverForm, {"consumer": "c" * 1025}, "consumer"),
        (RewindForm, {}, "messages"),
        (RewindForm, {"messages": "0"}, "messages"),
        (RewindForm, {"messages": "many"}, "messages"),
        (RewindForm, {"back": "9y"}, "__all__"),
        (ResetForm, {}, "to"),
        (ResetForm, {"to": "nowhere"}, "to"),
        (ResetForm, {"to": "time"}, "time"),
        (ResetForm, {"to": "time", "time": "yesterday"}, "time"),
        (ResetForm, {"to": "id"}, "id"),
        (ResetForm, {"to": "id", "id": "77"}, "id"),
        (SkipForm, {}, "messages"),
        (SkipForm, {"messages": "-1"}, "messages"),
    ],
)
def test_an_invalid_value_has_its_error_at_its_field(
    form_class: type[ActForm], filled: dict[str, str], field: str
) -> None:
    form = form_class(filled)
    assert not form.is_valid()
    assert list(form.errors) == [field]


PARTITION = "persistent://public/default/p-partition-1"


def test_the_third_number_of_an_id_is_the_partition_on_a_partitioned_topic() -> None:
    form = SkipOneForm({"id": "3:77:2"}, topic="persistent://public/default/p", is_partitioned=True)
    assert form.is_valid(), form.errors
    assert form.parameters() == {"id": "3:77:2"}


def test_the_third_number_of_an_id_is_the_index_on_a_partition_unless_it_may_be_either() -> None:
    form = SkipOneForm({"id": "3:77:2"}, topic=PARTITION)
    assert form.is_valid(), form.errors
    assert form.parameters() == {"id": "3:77:-1:2"}
    form = SkipOneForm({"id": "3:77:1"}, topic=PARTITION)
    assert form.errors == {
        "id": [
            (
                "1 may be the partition or the place in a batch: write 3:77 for the entry, or 3:77:-1:1 for the message"
                " in the batch."
            )
        ]
    }
    for clear in ("3:77", "3:77:-1:1", "3:77:1:1"):
        assert SkipOneForm({"id": clear}, topic=PARTITION).is_valid(), clear


def test_every_form_has_a_heading_a_lead_and_a_template() -> None:
    for form_class in act_forms.values():
        assert form_class.heading
        assert form_class.lead
        assert form_class.template


@pytest.mark.parametrize(
    ("typed", "valid"), [("billing", True), (" billing ", True), ("Billing", False), ("", False)]
)
def test_the_name_is_typed_exactly(typed: str, valid: bool) -> None:
    form = ApplyForm({"confirm": typed}, kind="clear", plan={"skipped_messages": 1}, name="billing")
    assert form.is_valid() is valid


def test_small_acts_ask_for_no_name() -> None:
    assert ApplyForm({}, kind="reset", plan={"replayed_messages": 10_000}, name="billing").is_valid()
