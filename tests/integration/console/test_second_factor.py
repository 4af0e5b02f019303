"""The second factor: set up on the account page, asked for at the login, limited by the login brake, and removed."""

from __future__ import annotations

import base64
import dataclasses
import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from axes.models import AccessAttempt
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from broker.conf import broker_settings
from broker.models import Act
from console.access import Role, rights
from console.api import basic
from console.middleware import POLICY
from console.models import SecondFactor
from console.people import half_login, requirement, second_factor
from console.people.logins import Users
from console.views.people import own_second_factor
from tests.integration.console.authenticator import Phone, equipped, secret_on
from tests.integration.console.conftest import granted, person
from tests.integration.console.pages import text_of
from tests.integration.console.test_hostile_input import HOSTILE

LIMIT = configured.AXES_FAILURE_LIMIT
OWN = "/account/second-factor"
CODE = "/login/code"
SET_UP = "/login/second-factor"
WRONG = "000000"


@pytest.fixture
def phone(monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(monkeypatch)


@pytest.fixture
def ada(db: None) -> User:
    """An operator without a second factor."""
    return granted(User.objects.create_user("ada", password="tested-7"), {"*": Role.OPERATOR})


@pytest.fixture
def codes(ada: User, phone: Phone) -> list[str]:
    """Ada's recovery codes, after she has set up a second factor."""
    return equipped(ada, phone)


def required_of(whom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(broker_settings(), require_second_factor=whom)  # type: ignore[arg-type]
    monkeypatch.setattr(requirement, "broker_settings", lambda: settings)


def with_password(client: Client, page: str = "/acts") -> Any:
    return client.post(f"/login?next={page}", {"username": "ada", "password": "tested-7", "next": page})


def is_in(client: Client) -> bool:
    return bool(client.get("/account").status_code == 200)


def recovery_codes_on(page: Any) -> list[str]:
    return re.findall(r"<li>([a-z2-7-]{19})</li>", page.content.decode())


def logged() -> list[tuple[str, str]]:
    return list(Act.objects.order_by("id").values_list("kind", "who"))


def test_a_user_sets_up_a_second_factor(ada: User, phone: Phone) -> None:
    hers, elsewhere = Client(), Client()
    with_password(hers)
    with_password(elsewhere)
    page = hers.get(OWN)
    phone.secret = secret_on(page)
    assert secret_on(hers.get(OWN)) == phone.secret
    done = hers.post(OWN, {"password": "tested-7", "code": phone.code()})
    shown = recovery_codes_on(done)
    assert len(set(shown)) == 10
    assert done["Cache-Control"] == "private, no-store"
    assert is_in(hers)
    assert not is_in(elsewhere)
    again = hers.get(OWN)
    assert "Recovery codes left 10" in text_of(again)
    assert not [code for code in shown if code in again.content.decode()]
    stored = SecondFactor.objects.get()
    assert phone.secret not in str(stored.__dict__)
    assert not [code for code in shown if code in str(stored.recovery_codes)]
    assert logged() == [("add_second_factor", "ada")]
    assert "add second factor of ada" in text_of(hers.get("/acts"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"password": "tested-7", "code": WRONG}, "This is not the code that the app shows now"),
        ({"password": "tested-7"}, "This is not the code that the app shows now"),
        ({"password": "wrong", "code": "right"}, "This is not your password"),
        ({"code": "right"}, "This is not your password"),
    ],
)
def test_a_wrong_code_or_password_sets_up_nothing(
    given: dict[str, str], words: str, ada: User, phone: Phone
) -> None:
    hers = Client()
    with_password(hers)
    phone.secret = secret_on(hers.get(OWN))
    fields = {name: phone.code() if value == "right" else value for name, value in given.items()}
    answer = hers.post(OWN, fields)
    assert (answer.status_code, words in text_of(answer)) == (422, True)
    assert secret_on(answer) == phone.secret
    assert not SecondFactor.objects.exists()
    assert logged() == []


def test_a_code_without_an_offer_sets_up_nothing(ada: User, phone: Phone) -> None:
    hers = Client()
    with_password(hers)
    assert phone.secret == ""
    assert hers.post(OWN, {"password": "tested-7", "code": phone.code()}).status_code == 422
    assert not SecondFactor.objects.exists()


def test_a_second_factor_is_not_replaced_by_another(ada: User, phone: Phone, codes: list[str]) -> None:
    hers = Client()
    hers.force_login(ada)
    before = SecondFactor.objects.get().secret
    answer = hers.post(OWN, {"password": "tested-7", "code": phone.code()})
    assert answer.status_code == 422
    assert SecondFactor.objects.get().secret == before


def test_the_login_asks_for_the_code(anonymous: Client, phone: Phone, codes: list[str]) -> None:
    assert with_password(anonymous)["Location"] == CODE
    assert not is_in(anonymous)
    assert "Hello ada" in text_of(anonymous.get(CODE))
    wrong = anonymous.post(CODE, {"code": WRONG})
    assert (wrong.status_code, "This code is wrong" in text_of(wrong)) == (422, True)
    assert not is_in(anonymous)
    assert anonymous.post(CODE, {"code": f" {phone.code()} "})["Location"] == "/acts"
    assert is_in(anonymous)
    assert anonymous.get(CODE)["Location"] == "/login"


def test_a_user_without_a_second_factor_logs_in_as_before(anonymous: Client, ada: User) -> None:
    assert with_password(anonymous)["Location"] == "/acts"
    assert is_in(anonymous)


def test_the_code_is_asked_for_only_after_the_password(
    anonymous: Client, phone: Phone, codes: list[str]
) -> None:
    assert anonymous.get(CODE)["Location"] == "/login"
    assert anonymous.post(CODE, {"code": phone.code()})["Location"] == "/login"
    assert anonymous.get(SET_UP)["Location"] == "/login"
    assert anonymous.post(SET_UP, {"code": phone.code()})["Location"] == "/login"
    assert not is_in(anonymous)


def test_a_code_works_once(phone: Phone, codes: list[str]) -> None:
    code = phone.code()
    for status in (302, 422):
        client = Client()
        with_password(client)
        assert client.post(CODE, {"code": code}).status_code == status


@pytest.mark.parametrize(("early_s", "status"), [(0, 302), (-30, 302), (30, 302), (-61, 422), (61, 422)])
def test_a_clock_may_be_half_a_minute_off(
    early_s: float, status: int, anonymous: Client, phone: Phone, codes: list[str]
) -> None:
    phone.later(3600)
    with_password(anonymous)
    assert anonymous.post(CODE, {"code": phone.code(early_s=early_s)}).status_code == status


def test_a_recovery_code_works_once_however_it_is_written(phone: Phone, codes: list[str]) -> None:
    for written in (codes[0], codes[1].upper().replace("-", " "), codes[2].replace("-", "")):
        client = Client()
        with_password(client)
        assert client.post(CODE, {"code": written})["Location"] == "/acts"
    client = Client()
    with_password(client)
    assert client.post(CODE, {"code": codes[0]}).status_code == 422
    assert client.post(CODE, {"code": ""}).status_code == 422
    assert len(SecondFactor.objects.get().recovery_codes) == 7


def test_a_password_without_its_code_counts_for_ten_minutes(
    anonymous: Client, phone: Phone, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_login, "LASTS_S", -1)
    with_password(anonymous)
    assert anonymous.post(CODE, {"code": phone.code()})["Location"] == "/login"
    assert not is_in(anonymous)


@pytest.mark.parametrize("change", ["password", "deactivated"])
def test_changing_the_user_ends_a_login_that_waits_for_its_code(
    change: str, anonymous: Client, ada: User, phone: Phone, codes: list[str]
) -> None:
    with_password(anonymous)
    if change == "password":
        ada.set_password("another-7")
    else:
        ada.is_active = False
    ada.save()
    assert anonymous.post(CODE, {"code": phone.code()})["Location"] == "/login"
    assert not is_in(anonymous)


def test_the_session_before_the_code_is_not_the_one_after_it(
    anonymous: Client, phone: Phone, codes: list[str]
) -> None:
    with_password(anonymous)
    before = anonymous.cookies["sessionid"].value
    anonymous.post(CODE, {"code": phone.code()})
    assert anonymous.cookies["sessionid"].value != before


def test_wrong_codes_count_like_wrong_passwords(anonymous: Client, phone: Phone, codes: list[str]) -> None:
    with_password(anonymous)
    statuses = [anonymous.post(CODE, {"code": WRONG}).status_code for _ in range(LIMIT)]
    assert statuses == [422] * (LIMIT - 1) + [429]
    right = anonymous.post(CODE, {"code": phone.code()})
    assert (right.status_code, right["Retry-After"]) == (429, "900")
    assert with_password(Client()).status_code == 429
    elsewhere = Client(REMOTE_ADDR="192.0.2.9")
    with_password(elsewhere)
    assert elsewhere.post(CODE, {"code": phone.code()}).status_code == 302


def test_the_right_password_does_not_forget_wrong_codes(phone: Phone, codes: list[str]) -> None:
    for _ in range(LIMIT):
        client = Client()
        with_password(client)
        client.post(CODE, {"code": WRONG})
    assert with_password(Client()).status_code == 429


def test_a_login_forgets_wrong_codes(anonymous: Client, phone: Phone, codes: list[str]) -> None:
    with_password(anonymous)
    for _ in range(LIMIT - 1):
        anonymous.post(CODE, {"code": WRONG})
    assert anonymous.post(CODE, {"code": phone.code()}).status_code == 302
    assert not AccessAttempt.objects.exists()


def test_the_login_brake_keeps_no_code(anonymous: Client, phone: Phone, codes: list[str]) -> None:
    with_password(anonymous)
    anonymous.post(CODE, {"code": "mistyped-recovery"})
    assert "mistyped-recovery" not in str(AccessAttempt.objects.values().get())


@pytest.mark.parametrize("part", ["remove", "codes"])
def test_a_session_alone_neither_removes_the_factor_nor_reads_its_codes(
    part: str, ada: User, phone: Phone, codes: list[str]
) -> None:
    hers = Client()
    hers.force_login(ada)
    statuses = [hers.post(f"{OWN}/{part}", {"code": WRONG}).status_code for _ in range(LIMIT)]
    assert statuses == [422] * (LIMIT - 1) + [429]
    assert hers.post(f"{OWN}/{part}", {"code": phone.code()}).status_code == 429
    assert len(SecondFactor.objects.get().recovery_codes) == 10


def test_a_user_renews_the_recovery_codes(ada: User, phone: Phone, codes: list[str]) -> None:
    hers = Client()
    hers.force_login(ada)
    fresh = recovery_codes_on(hers.post(f"{OWN}/codes", {"code": codes[0]}))
    assert len(fresh) == 10
    client = Client()
    with_password(client)
    assert client.post(CODE, {"code": codes[1]}).status_code == 422
    assert client.post(CODE, {"code": fresh[0]}).status_code == 302
    assert logged() == [("renew_recovery_codes", "ada")]


def test_a_user_removes_the_second_factor(ada: User, phone: Phone, codes: list[str]) -> None:
    hers = Client()
    hers.force_login(ada)
    answer = hers.post(f"{OWN}/remove", {"code": phone.code()})
    assert answer["Location"] == "/account?done=factor_off"
    assert "no longer have a second factor" in text_of(hers.get(answer["Location"]))
    assert with_password(Client())["Location"] == "/acts"
    assert logged() == [("remove_second_factor", "ada")]
    assert hers.post(f"{OWN}/remove", {"code": phone.code()}).status_code == 422
    assert hers.post(f"{OWN}/codes", {"code": phone.code()}).status_code == 422


def test_a_factor_that_another_request_has_just_removed_is_not_there(
    ada: User, phone: Phone, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hers = Client()
    hers.force_login(ada)

    def removing(user: User, code: str) -> bool:
        return second_factor.accepts(user, code) and second_factor.remove(user)

    monkeypatch.setattr(own_second_factor, "accepts", removing)
    answer = hers.post(f"{OWN}/remove", {"code": phone.code()})
    assert (answer.status_code, logged()) == (422, [])


def test_an_admin_removes_a_lost_second_factor(ada: User, phone: Phone, codes: list[str]) -> None:
    admin = person("eve", {"*": Role.ADMIN})
    assert "Lost second factor" in text_of(admin.get("/users/u/ada"))
    assert admin.post("/users/u/ada/second-factor")["Location"] == "/users/u/ada?done=factor"
    assert "Lost second factor" not in text_of(admin.get("/users/u/ada"))
    assert with_password(Client())["Location"] == "/acts"
    assert logged() == [("remove_second_factor", "eve")]
    refused = admin.post("/users/u/ada/second-factor")
    assert (refused.status_code, "ada has no second factor" in text_of(refused)) == (409, True)
    assert admin.post("/users/u/nemo/second-factor").status_code == 404


def test_a_command_removes_the_second_factor_of_the_last_admin(
    ada: User, codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("removesecondfactor", "ada")
    assert "ada no longer has a second factor" in capsys.readouterr().out
    assert not SecondFactor.objects.exists()
    for name, words in (("ada", "ada has no second factor"), ("nemo", "there is no user 'nemo'")):
        with pytest.raises(CommandError, match=words):
            call_command("removesecondfactor", name)


def test_a_new_secret_key_leaves_the_recovery_codes(
    phone: Phone, codes: list[str], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SECRET_KEY = "another"
    client = Client()
    with_password(client)
    assert client.post(CODE, {"code": phone.code()}).status_code == 422
    assert "VELA_SECRET_KEY has changed" in caplog.text
    assert phone.secret not in caplog.text
    assert client.post(CODE, {"code": codes[0]}).status_code == 302


@pytest.mark.parametrize(
    ("whom", "role", "asked"),
    [
        ("everybody", Role.VIEWER, True),
        ("admins", Role.ADMIN, True),
        ("admins", Role.OPERATOR, False),
        ("nobody", Role.ADMIN, False),
    ],
)
def test_the_setting_decides_which_users_need_a_second_factor(
    whom: str, role: Role, asked: bool, anonymous: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = granted(User.objects.create_user("ada", password="tested-7"), {"garden/*": role})
    before = Client()
    before.force_login(ada)
    required_of(whom, monkeypatch)
    assert is_in(before) is not asked
    assert (async_to_sync(Users().aget_user)(ada.pk) is None) is asked
    assert with_password(anonymous)["Location"] == (SET_UP if asked else "/acts")
    assert is_in(anonymous) is not asked


def test_a_superuser_counts_as_an_admin(
    anonymous: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.filter(pk=ada.pk).update(is_superuser=True)
    required_of("admins", monkeypatch)
    assert with_password(anonymous)["Location"] == SET_UP


def test_a_user_who_needs_a_factor_sets_it_up_to_get_in(
    anonymous: Client, ada: User, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    required_of("everybody", monkeypatch)
    with_password(anonymous)
    phone.secret = secret_on(anonymous.get(SET_UP))
    wrong = anonymous.post(SET_UP, {"code": WRONG})
    assert (wrong.status_code, secret_on(wrong)) == (422, phone.secret)
    assert not is_in(anonymous)
    done = anonymous.post(SET_UP, {"code": phone.code()})
    assert len(recovery_codes_on(done)) == 10
    assert 'href="/acts"' in done.content.decode()
    assert is_in(anonymous)
    removed = anonymous.post(f"{OWN}/remove", {"code": phone.later().code()})
    assert removed.status_code == 302
    assert not is_in(anonymous)


def test_a_user_with_a_factor_cannot_set_up_another_instead_of_the_code(
    anonymous: Client, phone: Phone, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    required_of("everybody", monkeypatch)
    with_password(anonymous)
    assert anonymous.get(SET_UP)["Location"] == CODE
    assert anonymous.post(SET_UP, {"code": phone.code()})["Location"] == CODE
    assert not is_in(anonymous)


def test_a_read_only_console_asks_for_the_code_and_sets_up_nothing(
    ada: User, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(
        broker_settings(), console_read_only=True, require_second_factor="everybody"
    )
    for module in (rights, requirement):
        monkeypatch.setattr(module, "broker_settings", lambda: settings)
    monkeypatch.setattr("console.views.login.set_up.broker_settings", lambda: settings)
    client = Client()
    with_password(client)
    assert "set up the second factor in another console" in text_of(client.get(SET_UP))
    assert client.post(SET_UP, {"code": WRONG}).status_code == 403
    equipped(ada, phone)
    assert client.post(CODE, {"code": phone.code()}).status_code == 302
    assert "change your second factor in another console" in text_of(client.get(OWN))


def by_basic(password: str = "tested-7") -> Any:
    token = base64.b64encode(f"ada:{password}".encode()).decode()
    return Client().get("/api/v1/stats", headers={"authorization": f"Basic {token}"})


def test_basic_authentication_refuses_users_who_need_a_code(
    ada: User, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    basic._remembered.clear()
    assert by_basic().status_code == 200
    equipped(ada, phone)
    for _ in range(2):
        refused = by_basic()
        assert (refused.status_code, refused.json()["code"]) == (403, "SecondFactorNeeded")
    assert by_basic("wrong").status_code == 401
    SecondFactor.objects.all().delete()
    assert by_basic().status_code == 200
    required_of("everybody", monkeypatch)
    assert by_basic().status_code == 403
    basic._remembered.clear()


def test_django_admin_is_not_a_way_around_the_code(anonymous: Client, ada: User, phone: Phone) -> None:
    User.objects.filter(pk=ada.pk).update(is_staff=True, is_superuser=True)
    given = {"username": "ada", "password": "tested-7"}
    assert Client().post("/django-admin/login/", given).status_code == 302
    equipped(ada, phone)
    refused = anonymous.post("/django-admin/login/", given)
    assert "You need a second factor" in text_of(refused)
    assert not is_in(anonymous)


def test_the_live_stream_refuses_a_login_that_waits_for_its_code(anonymous: Client, codes: list[str]) -> None:
    with_password(anonymous)
    assert "_auth_user_id" not in anonymous.session


def test_the_qr_code_obeys_the_pages_policy(ada: User) -> None:
    hers = Client()
    hers.force_login(ada)
    page = hers.get(OWN)
    assert page["Content-Security-Policy"] == POLICY
    html = page.content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:|hx-on", html)
    picture = re.search(r"<svg.*?</svg>", html, re.DOTALL)
    assert picture
    assert "<path" in picture[0]
    assert not re.search(r"style|xlink|<image|href|\son\w+=", picture[0])


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_codes_cause_no_fault(
    what: str, anonymous: Client, ada: User, phone: Phone, codes: list[str]
) -> None:
    hers = Client(raise_request_exception=False)
    hers.force_login(ada)
    anonymous.raise_request_exception = False
    with_password(anonymous)
    for client, address in ((anonymous, CODE), (hers, f"{OWN}/remove"), (hers, f"{OWN}/codes"), (hers, OWN)):
        body = f"code={HOSTILE[what]}&password={HOSTILE[what]}"
        answer = client.post(address, body, content_type="application/x-www-form-urlencoded")
        assert answer.status_code == 422, address
        assert "<script>alert" not in answer.content.decode()
    assert len(SecondFactor.objects.get().recovery_codes) == 10
