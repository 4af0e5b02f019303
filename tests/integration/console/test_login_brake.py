"""Too many wrong passwords lock a name at one address for a while, but not at other addresses."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.core.management import call_command
from django.http import HttpRequest
from django.test import Client, RequestFactory
from pytest_django import Settings

from console.login_brake import ADDRESS_SHARE
from console.origin import client_address
from tests.integration.console.pages import text_of

LIMIT = configured.AXES_FAILURE_LIMIT
DOORS = ("/login", "/django-admin/login/", "/api/v1/stats")


@pytest.fixture(autouse=True)
def ada(db: None) -> User:
    return User.objects.create_user("ada", password="right", is_superuser=True)


def log_in(
    password: str, *, name: str = "ada", address: str = "192.0.2.7", door: str = "/login", agent: str = "x"
) -> Any:
    client = Client(REMOTE_ADDR=address, HTTP_USER_AGENT=agent)
    if door.startswith("/api/"):
        token = base64.b64encode(f"{name}:{password}".encode()).decode()
        return client.get(door, headers={"authorization": f"Basic {token}"})
    return client.post(f"{door}?next=/acts", {"username": name, "password": password})


@pytest.mark.parametrize("door", DOORS)
def test_after_too_many_failures_even_the_right_password_is_refused(door: str) -> None:
    statuses = [log_in("wrong", door=door, agent=str(number)).status_code for number in range(LIMIT)]
    assert set(statuses[:-1]) <= {200, 401}
    refused = log_in("right", door=door)
    assert (refused.status_code, refused["Retry-After"]) == (429, "900")
    words = refused.content.decode()
    assert "15 minutes" in words
    assert "axes_reset_username" in words
    if door.startswith("/api/"):
        assert refused.json()["code"] == "TooManyFailures"


def test_a_lock_at_one_address_locks_no_one_out_at_another() -> None:
    for _ in range(LIMIT + 1):
        log_in("wrong")
    assert log_in("right").status_code == 429
    assert log_in("right", address="192.0.2.8").status_code == 302
    assert log_in("right").status_code == 429


def test_an_address_that_tries_many_names_is_locked_for_all_of_them() -> None:
    for number in range(LIMIT * ADDRESS_SHARE):
        log_in("wrong", name=f"somebody-{number}")
    assert log_in("right").status_code == 429
    assert log_in("right", address="192.0.2.8").status_code == 302


@pytest.mark.parametrize("door", DOORS)
def test_a_very_long_name_is_refused_like_any_wrong_one(door: str) -> None:
    assert log_in("wrong", name="n" * 10_000, door=door).status_code in (200, 401)


def test_a_login_forgets_only_the_failures_of_its_own_name() -> None:
    User.objects.create_user("vera", password="own")
    for _ in range(LIMIT - 1):
        log_in("wrong")
        log_in("wrong", name="vera")
    assert log_in("own", name="vera").status_code == 302
    log_in("wrong", name="vera")
    assert log_in("own", name="vera").status_code == 302
    log_in("wrong")
    assert log_in("right").status_code == 429


def test_a_lock_ends_and_is_not_prolonged_by_trying() -> None:
    for _ in range(LIMIT + 3):
        log_in("wrong")
    assert AccessAttempt.objects.get().failures_since_start == LIMIT
    attempt = AccessAttempt.objects.get()
    attempt.attempt_time -= configured.AXES_COOLOFF_TIME + timedelta(seconds=1)
    attempt.save()
    assert log_in("right").status_code == 302


@pytest.mark.parametrize("command", [("axes_reset_username", "ada"), ("axes_reset_ip", "192.0.2.7")])
def test_an_administrator_lifts_a_lock(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(LIMIT):
        log_in("wrong")
    call_command(*command)
    assert log_in("right").status_code == 302


def test_no_password_is_kept() -> None:
    log_in("a-secret-that-was-mistyped")
    kept = AccessAttempt.objects.values().get()
    assert "a-secret-that-was-mistyped" not in str(kept)


def test_a_name_too_long_for_any_user_is_refused_without_a_record() -> None:
    assert log_in("wrong", name="x" * 5000, door="/api/v1/stats").status_code == 401
    assert "The name or the password is wrong." in text_of(log_in("wrong", name="x" * 150))
    assert AccessAttempt.objects.count() == 1


def asked(forwarded: str) -> HttpRequest:
    return RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"x-forwarded-for": forwarded})


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "192.0.2.9", "10.0.0.1"),
        (1, "203.0.113.5, 192.0.2.9", "192.0.2.9"),
        (2, "203.0.113.5, 192.0.2.9", "203.0.113.5"),
        (3, "203.0.113.5, 192.0.2.9", "10.0.0.1"),
        (1, "no address", "10.0.0.1"),
        (1, "", "10.0.0.1"),
        (1, "2001:db8::7", "2001:db8::7"),
    ],
)
def test_the_address_is_the_one_that_the_trusted_proxies_report(
    proxies: int, forwarded: str, address: str, settings: Settings
) -> None:
    settings.VELA_PROXY_COUNT = proxies
    assert client_address(asked(forwarded)) == address
