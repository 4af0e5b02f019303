"""docs/reference/tables.md: every table of the models; acts.md: every kind and state."""

from __future__ import annotations

from django.apps import apps

from broker.acts.kinds.registry import KINDS
from broker.models import Act
from broker.process.ownership import CHANNELS
from tests.unit.docs.pages import code_names, page, rows, section

TABLES = page("reference/tables.md")
ACTS = page("reference/acts.md")


def test_every_table_is_documented_and_no_other() -> None:
    documented = {
        name
        for cells in rows(TABLES)
        for name in code_names(cells[0])
        if name.startswith(("vela_", "console_")) and "." not in name and "⟨" not in name
    }
    tables = {
        model._meta.db_table
        for app in ("broker", "console")
        for model in apps.get_app_config(app).get_models()
    }
    others = {"vela_delivery_id"} | {name for name in documented if name.endswith(("_v1", "_v2"))}
    channels = {*CHANNELS, "vela_act_done", "vela_page"}
    assert channels <= documented
    assert documented - others - (channels - tables) == tables


def test_every_kind_of_act_is_documented() -> None:
    documented = [code_names(cells[0])[0] for cells in rows(section(ACTS, "Kinds"))]
    assert documented == list(KINDS)


def test_every_state_of_an_act_is_documented() -> None:
    documented = [code_names(cells[0])[0] for cells in rows(section(ACTS, "States"))]
    assert documented == list(Act.State.values)
