"""docs/reference/admin-rest.md lists every operation of the admin API, and what it does."""

from __future__ import annotations

from broker.doors.admin.absent import ABSENT, why_absent
from broker.doors.admin.api import API
from broker.doors.admin.operations import described
from tests.unit.docs.admin_table import PAGE, page_with_tables


def test_the_tables_are_those_of_the_code() -> None:
    assert PAGE.read_text("utf-8") == page_with_tables(), "run python -m tests.unit.docs.admin_table"


def test_nothing_is_both_served_and_absent() -> None:
    served = {(each.method, each.path) for each in described(API)}
    for line in ABSENT:
        methods, _, path = line.rpartition(" ")
        for method in methods.split(", "):
            assert (method, path) not in served


def test_every_operation_says_what_it_does() -> None:
    assert [each for each in described(API) if not each.summary] == []


def test_an_absent_path_has_its_reason() -> None:
    assert why_absent("/admin/v3/functions/public/default") == (
        "Vela has no functions, connectors, packages or transactions"
    )
    properties = "/admin/v2/persistent/acme/shop/orders/properties"
    assert why_absent(properties) == "properties are set at creation"  # this path is listed with two methods
    assert why_absent("/admin/v2/functions/public/default") == "Vela has no functions"
    assert why_absent("/admin/v2/nothing") == ""
