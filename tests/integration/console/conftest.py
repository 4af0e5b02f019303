"""The same three people in every test: one who acts, one who looks, one who is nobody."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import Settings

from console.access import OPERATOR_GROUP
from tests.integration.console.shop import Shop, open_shop


@pytest.fixture(autouse=True)
def pages_read_the_tests_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's rows are not committed, so pages read on the connection that wrote them (test_reading.py does not)."""
    monkeypatch.setattr("console.queries.database.READ_ALIAS", "default")


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """A password that costs nothing to check: these tests are not about that."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def operator(db: None) -> Client:
    """May act and sees payloads, by the group."""
    user = User.objects.create_user("ada", password="tested-7")
    user.groups.add(Group.objects.create(name=OPERATOR_GROUP))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def looker(db: None) -> Client:
    """Logged in, nothing more."""
    client = Client()
    client.force_login(User.objects.create_user("vera", password="tested-7"))
    return client


@pytest.fixture
def nobody(db: None) -> Client:
    """Not logged in."""
    return Client()


@pytest.fixture
def shop(db: None) -> Shop:
    """The topic `orders` and its subscription `billing`."""
    return open_shop()
