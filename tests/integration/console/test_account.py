"""A user's own account: password, time zone, theme. Times on pages and in forms are in the user's zone."""

from __future__ import annotations

import dataclasses
import re
from urllib.parse import quote

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from broker.acts import requests as acts
from broker.conf import broker_settings
from broker.models import Act
from console.access import Role, rights
from console.models import Preferences
from tests.integration.console.conftest import granted, person
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop
from tests.integration.console.test_hostile_input import HOSTILE

ORDERS = "/t/persistent/public/default/orders"
NEW = "horse-staple-9"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def ada(db: None) -> User:
    """A user who may act everywhere."""
    return granted(User.objects.create_user("ada", password="tested-7"), {"*": Role.OPERATOR})


@pytest.fixture
def browser(ada: User) -> Client:
    """The browser of ada."""
    client = Client()
    client.force_login(ada)
    return client


def in_zone(browser: Client, zone: str) -> None:
    assert browser.post("/account/time-zone", {"zone": zone})["Location"] == "/account?done=zone"


def chosen(page: str) -> list[str]:
    return re.findall(r'<option value="([^"]+)" selected>', page)


def test_every_logged_in_user_has_an_account_page_and_no_one_else(
    outsider: Client, anonymous: Client
) -> None:
    assert outsider.get("/account").status_code == 200
    in_zone(outsider, "Asia/Tokyo")
    assert chosen(outsider.get("/account").content.decode()) == ["Asia/Tokyo"]
    assert anonymous.get("/account")["Location"] == "/login?next=/account"
    for address in ("/account/password", "/account/time-zone"):
        assert anonymous.post(address)["Location"].startswith("/login")
        assert outsider.get(address)["Location"] == "/account"
        assert Client(enforce_csrf_checks=True).post(address).status_code in (302, 403)


def test_a_new_password_ends_the_other_sessions_only(browser: Client, ada: User) -> None:
    elsewhere = Client()
    elsewhere.force_login(ada)
    fields = {"old": "tested-7", "new": NEW, "again": NEW}
    assert browser.post("/account/password", fields)["Location"] == "/account?done=password"
    assert "Your password has changed" in text_of(browser.get("/account?done=password"))
    assert elsewhere.get("/account").status_code == 302
    assert Client().post("/login", {"username": "ada", "password": NEW}).status_code == 302
    act = Act.objects.get()
    assert (act.kind, act.parameters, act.who) == ("set_password", {"user": "ada"}, "ada")
    assert NEW not in str(Act.objects.values())


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"old": "wrong", "new": NEW, "again": NEW}, 422, "This is not your password"),
        ({"old": "tested-7", "new": NEW, "again": NEW + "x"}, 422, "This is not the same password"),
        ({"old": "tested-7", "new": "", "again": ""}, 422, "Give the new password"),
        ({"old": "tested-7", "new": "short", "again": "short"}, 409, "too short"),
        ({}, 422, "Give your current password"),
    ],
)
def test_an_invalid_new_password_changes_nothing(
    fields: dict[str, str], status: int, words: str, browser: Client, ada: User
) -> None:
    answer = browser.post("/account/password", fields)
    assert (answer.status_code, words in text_of(answer)) == (status, True)
    assert browser.get("/account").status_code == 200
    ada.refresh_from_db()
    assert ada.check_password("tested-7")
    assert not Act.objects.exists()


def test_wrong_passwords_count_like_failed_logins(browser: Client, ada: User) -> None:
    guess = {"old": "guessed-7", "new": NEW, "again": NEW}
    statuses = [
        browser.post("/account/password", guess).status_code for _ in range(settings.AXES_FAILURE_LIMIT)
    ]
    assert statuses == [422] * (settings.AXES_FAILURE_LIMIT - 1) + [429]
    assert browser.post("/account/password", {**guess, "old": "tested-7"}).status_code == 429
    assert Client().post("/login", {"username": "ada", "password": "tested-7"}).status_code == 429
    stored = str(AccessAttempt.objects.values())
    assert not any(password in stored for password in ("guessed-7", NEW))


@pytest.mark.parametrize("zone", ["", "Europe/Atlantis", "../../etc/passwd", "europe/berlin"])
def test_an_unknown_zone_is_refused(zone: str, browser: Client) -> None:
    answer = browser.post("/account/time-zone", {"zone": zone})
    assert (answer.status_code, "time zone" in text_of(answer)) == (422, True)
    assert not Preferences.objects.exists()


def test_a_stored_zone_that_no_longer_exists_counts_as_utc(browser: Client, ada: User) -> None:
    Preferences.objects.create(user=ada, time_zone="Europe/Atlantis")
    assert "Times are UTC" in text_of(browser.get("/account"))


def test_times_on_pages_are_in_the_users_zone(browser: Client, ada: User, shop: Shop) -> None:
    Act.objects.create(
        kind="reset",
        state="applied",
        topic_name=shop.topic.name,
        subscription_name="billing",
        parameters={"to": "time", "time_ms": 1_790_000_000_000},  # 2026-09-21 14:13:20 UTC
        who="ada",
        origin="console",
        requested_at="2026-01-01T00:00:00Z",
    )
    other = person("vera", {"*": Role.OPERATOR})
    before = browser.get("/acts?part=rows")
    assert "reset to 2026-09-21 14:13:20.000 UTC" in text_of(before)
    in_zone(browser, "Asia/Kolkata")
    after = browser.get("/acts?part=rows", headers={"if-none-match": before["ETag"]})
    assert after.status_code == 200
    assert "reset to 2026-09-21 19:43:20.000 Asia/Kolkata" in text_of(after)
    assert re.search(r'title="[^"]* Asia/Kolkata"', after.content.decode())
    assert "Times are Asia/Kolkata" in text_of(browser.get("/acts"))
    assert other.get("/acts?part=rows")["ETag"] == before["ETag"]
    told = browser.get("/api/v1/acts").json()["acts"][0]
    assert "Asia/Kolkata" not in str(told)


def test_the_version_of_every_block_depends_on_the_zone(browser: Client, shop: Shop) -> None:
    address = f"{ORDERS}/s/billing?part=numbers"
    before = browser.get(address)["ETag"]
    in_zone(browser, "America/New_York")
    assert browser.get(address)["ETag"] != before


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-01-31 09:30", 1_769_848_200_000),
        ("2026-01-31 09:30+00:00", 1_769_851_800_000),
        ("2026-07-01 12:00", 1_782_900_000_000),
    ],
)
def test_a_time_in_a_form_is_read_in_the_users_zone(
    text: str, time_ms: int, browser: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeActs()
    monkeypatch.setattr(acts, "plan", fake.plan)
    in_zone(browser, "Europe/Berlin")
    form = f"{ORDERS}/s/billing/act/reset"
    assert 'aria-label="Time, Europe/Berlin"' in browser.get(form).content.decode()
    assert browser.post(form, {"to": "time", "time": text}).status_code == 302
    assert fake.asked[-1][1][3]["time_ms"] == time_ms


@pytest.mark.parametrize("text", ["2026-10-25 02:30", "2026-03-29 02:30"])
def test_a_time_that_the_clock_shows_twice_or_never_is_refused(
    text: str, browser: Client, shop: Shop
) -> None:
    in_zone(browser, "Europe/Berlin")
    answer = browser.post(f"{ORDERS}/s/billing/act/reset", {"to": "time", "time": text})
    assert answer.status_code == 422
    assert "The clocks of Europe/Berlin change at that time" in text_of(answer)


def test_every_other_form_with_a_time_names_the_zone(browser: Client, shop: Shop) -> None:
    in_zone(browser, "Europe/Berlin")
    for form in (f"{ORDERS}/s/billing/act/redrive", f"{ORDERS}/act/publish", f"{ORDERS}/messages"):
        words = text_of(browser.get(form))
        assert "Europe/Berlin" in words.split("Times are")[0], form
        assert "UTC" not in words, form


def test_an_address_of_messages_means_the_same_to_everybody(browser: Client, shop: Shop) -> None:
    in_zone(browser, "Asia/Tokyo")
    fresh = browser.get(f"{ORDERS}/messages").content.decode()
    assert '<input type="hidden" name="zone" value="Asia/Tokyo">' in fresh
    theirs = person("vera", {"*": Role.OPERATOR})
    shared = f"{ORDERS}/messages?start=time&at=2026-01-31+09:30&zone=Asia/Tokyo"
    assert "Time (Asia/Tokyo) or position" in text_of(theirs.get(shared))
    without = f"{ORDERS}/messages?start=time&at=2026-01-31+09:30"
    assert "Time (UTC) or position" in text_of(browser.get(without))
    wrong = browser.get(f"{shared}xyz")
    assert "There is no time zone" in text_of(wrong)


def test_choosing_a_theme_leads_back_to_the_page(browser: Client) -> None:
    assert 'name="next" value="/account"' in browser.get("/account").content.decode()
    assert browser.post("/theme", {"to": "dark", "next": "/account"})["Location"] == "/account"


def test_a_read_only_console_changes_nothing(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(broker_settings(), console_read_only=True)
    monkeypatch.setattr(rights, "broker_settings", lambda: settings)
    assert "This console is read-only" in text_of(browser.get("/account"))
    assert browser.post("/account/time-zone", {"zone": "UTC"}).status_code == 403
    assert browser.post("/account/password", {"old": "tested-7", "new": NEW, "again": NEW}).status_code == 403
    assert not Preferences.objects.exists()


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_cause_no_fault(what: str, browser: Client, shop: Shop) -> None:
    browser.raise_request_exception = False
    value = HOSTILE[what]
    for address, body in (
        ("/account/time-zone", f"zone={value}"),
        ("/account/password", f"old={value}&new={value}&again={value}"),
        ("/account/password", f"old=tested-7&new={value}&again={quote(NEW)}"),
    ):
        assert browser.post(address, body, content_type=FORM).status_code < 500, address
    shown = browser.get(f"{ORDERS}/messages?start=time&at=2026-01-01&zone={value}")
    assert shown.status_code < 500
    assert "<script>alert" not in shown.content.decode()
