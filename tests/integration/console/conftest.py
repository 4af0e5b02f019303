"""The same users in every test, from an admin to an anonymous visitor, and a started console."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page
from pytest_django import Settings

from console.access import Role
from console.models import Grant
from tests.integration.console.shop import Shop, open_shop
from tests.integration.console.started_console import StartedConsole, started_console, window


@pytest.fixture(autouse=True)
def pages_read_the_tests_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages use the test's own connection, whose rows are not committed. test_reading.py does without this."""
    monkeypatch.setattr("console.queries.database.READ_ALIAS", "default")


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """Make passwords cheap to check: these tests are not about hashing."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def granted(user: User, roles: Mapping[str, Role]) -> User:
    """Give a user roles, by pattern, and return the user."""
    Grant.objects.bulk_create(Grant(user=user, pattern=pattern, role=role) for pattern, role in roles.items())
    return user


def person(name: str, roles: Mapping[str, Role]) -> Client:
    """Return the browser of a new user with these roles, by pattern."""
    client = Client()
    client.force_login(granted(User.objects.create_user(name, password="tested-7"), roles))
    return client


@pytest.fixture
def admin(db: None) -> Client:
    """Somebody who may do what an operator may, change namespaces, and delete topics, everywhere."""
    return person("anna", {"*": Role.ADMIN})


@pytest.fixture
def operator(db: None) -> Client:
    """Somebody who may act and sees payloads, everywhere."""
    return person("ada", {"*": Role.OPERATOR})


@pytest.fixture
def looker(db: None) -> Client:
    """Somebody who sees names and numbers, everywhere."""
    return person("vera", {"*": Role.VIEWER})


@pytest.fixture
def outsider(db: None) -> Client:
    """Somebody who is logged in and has no role."""
    return person("otto", {})


@pytest.fixture
def anonymous(db: None) -> Client:
    """Somebody who is not logged in."""
    return Client()


@pytest.fixture
def shop(db: None) -> Shop:
    """The topic `orders` and its subscription `billing`."""
    return open_shop()


@pytest.fixture(scope="package")
def console(django_db_setup: None) -> Iterator[StartedConsole]:
    """A console for all tests of pages in a browser, each of which begins with empty tables."""
    with started_console() as started:
        yield started


@pytest.fixture
def console_url(console: StartedConsole) -> str:
    """The console's address."""
    return console.url


@pytest.fixture
def errors() -> list[str]:
    """The errors that the browser logged."""
    return []


@pytest.fixture
def page(chromium: Browser, console_url: str, shop: Shop, errors: list[str]) -> Iterator[Page]:
    """A logged-in operator's window. A test fails if the browser logs an error that it does not clear."""
    with window(chromium, console_url) as page:
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto("/topics")
        yield page
    assert errors == []
