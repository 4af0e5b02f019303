"""The connection that pages read through: it cannot write, and it ends a statement that takes too long."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, InternalError, connections

from broker.models import PipelineSchedule
from console.access import Role
from console.access.granting import set_role
from console.queries import database
from console.queries.rights import EVERYTHING
from console.queries.topics.list import TopicsAsked, topics
from console.queries.topics.log import EntryAt, Log, by_place, entries_at
from tests.integration.console.conftest import granted
from tests.integration.console.shop import ORDERS, Shop, make_topic
from tests.integration.console.test_granting import scheduled
from tests.unit.console.test_cursor import a_ledger

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "read"])


@pytest.fixture(autouse=True)
def the_real_connection(monkeypatch: pytest.MonkeyPatch, pages_read_the_tests_transaction: None) -> None:
    """Undo `pages_read_the_tests_transaction`: these tests commit their rows, so the real connection finds them."""
    monkeypatch.setattr(database, "READ_ALIAS", "read")


def test_the_connection_reads_committed_rows() -> None:
    make_topic("persistent://public/default/apples", backlog=3)
    assert [row.name for row in topics(TopicsAsked(), EVERYTHING).rows] == [
        "persistent://public/default/apples"
    ]


def test_the_connection_cannot_write() -> None:
    make_topic("persistent://public/default/apples")
    with connections["read"].cursor() as cursor, pytest.raises(InternalError, match="read-only transaction"):
        cursor.execute("UPDATE vela_topic SET properties = '{}'")


def test_a_segment_dropped_after_its_ledger_was_read_has_no_entries() -> None:
    ledger = a_ledger(1, 0, 5, segment_id=987_654)
    assert entries_at(Log((ledger,)), [(1, 3)]) == {}


def test_entries_of_other_segments_are_read_although_one_was_dropped(shop: Shop) -> None:
    stores = {shop.sealed.segment_id or 0, 987_654}
    rows = database.fetch_entries(EntryAt, "at", stores, by_place([(shop.sealed.pk, 5)]))
    assert [row.place for row in rows] == [(shop.sealed.pk, 5)]


def test_a_user_loses_schedules_with_the_role_although_this_connection_does_not_see_the_change_yet() -> None:
    granted(User.objects.create_user("ada"), {"public/*": Role.OPERATOR})
    scheduled("ada", ORDERS)
    set_role("ada", "public/*", Role.VIEWER, who="root", origin="test")
    assert not PipelineSchedule.objects.exists()


def test_a_statement_that_takes_too_long_is_ended() -> None:
    with connections["read"].cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("5s",)
        cursor.execute("SET statement_timeout = 20")
        with pytest.raises(DatabaseError, match="statement timeout"):
            cursor.execute("SELECT pg_sleep(5)")
    connections["read"].close()
