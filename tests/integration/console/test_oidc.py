"""Login at an OpenID Connect server: which users get in, with which roles, and which answers are refused."""

from __future__ import annotations

import dataclasses
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from joserfc.jwk import ECKey, OctKey, RSAKey

from broker.conf import BrokerSettings, broker_settings
from broker.login_settings import GroupRole
from broker.models import Act
from console.access import Role
from console.models import Grant, Identity
from console.oidc import flow
from console.oidc import person as identities
from console.oidc import server as known_servers
from console.people import logins, requirement
from console.views.login import oidc, password
from tests.integration.console.conftest import granted, person
from tests.integration.console.pages import text_of
from tests.integration.console.test_hostile_input import HOSTILE
from tests.support.login_server import CLIENT_ID, CLIENT_SECRET, LoginServer, running_login_server

Claims = dict[str, Any]
ROLES = (
    GroupRole(group="shop-team", role="operator", pattern="shop/*"),
    GroupRole(group="auditors", role="viewer", pattern="shop/*"),
    GroupRole(group="auditors", role="viewer", pattern="bank/*"),
    GroupRole(group="platform", role="admin", pattern="*"),
)


@pytest.fixture(scope="module")
def _listening() -> Iterator[LoginServer]:
    with running_login_server() as server:
        yield server


@pytest.fixture
def server(_listening: LoginServer, db: None) -> LoginServer:
    """A login server that knows ada, who is in no group."""
    fresh = LoginServer()
    fresh.issuer = _listening.issuer
    _listening.__dict__.update(fresh.__dict__)
    known_servers.forget()
    return _listening


@pytest.fixture
def configure(server: LoginServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that changes the settings that concern the login."""
    now = [
        dataclasses.replace(
            broker_settings(),
            oidc_issuer=server.issuer,
            oidc_name="Keys & Co",
            oidc_client_id=CLIENT_ID,
            oidc_client_secret=CLIENT_SECRET,
            oidc_roles=ROLES,
        )
    ]

    def current() -> BrokerSettings:
        return now[0]

    for module in (oidc, password, logins, requirement):
        monkeypatch.setattr(module, "broker_settings", current)

    def change(**settings: Any) -> None:
        now[0] = dataclasses.replace(now[0], **settings)

    return change


@pytest.fixture
def browser(configure: object) -> Client:
    """A browser in which nobody is logged in, at a console that knows the login server."""
    return Client()


def go(browser: Client, server: LoginServer, next_page: str = "") -> Any:
    """Log in at the server, follow its redirect back, and return the console's answer."""
    begun = browser.get("/login/oidc", {"next": next_page} if next_page else {})
    assert begun.status_code == 302, begun.content.decode()
    return browser.get(server.log_in(begun["Location"]))


def refusal(answer: Any) -> str:
    assert answer.status_code == 403, answer.content.decode()
    assert answer.client.get("/account").status_code == 302
    assert not answer.client.session.get("_auth_user_id")
    return text_of(answer)


def roles(name: str = "ada") -> set[tuple[str, int]]:
    return set(Grant.objects.filter(user__username=name).values_list("pattern", "role"))


def test_without_the_setting_there_are_no_pages_for_the_login_server(anonymous: Client) -> None:
    for address in ("/login/oidc", "/login/oidc/callback"):
        assert anonymous.get(address).status_code == 404
    assert "/login/oidc" not in anonymous.get("/login").content.decode()


def test_a_login_makes_a_user_with_the_roles_of_its_groups(browser: Client, server: LoginServer) -> None:
    server.person |= {"groups": ["shop-team", "else"]}
    page = browser.get("/login?next=/acts").content.decode()
    assert 'href="/login/oidc?next=%2Facts"' in page
    assert "Log in with Keys &amp; Co" in page
    answer = go(browser, server, "/acts")
    assert answer["Location"] == "/acts"
    assert browser.get("/acts").status_code == 200
    ada = User.objects.get()
    assert (ada.username, ada.has_usable_password(), ada.is_superuser) == ("ada", False, False)
    assert roles() == {("shop/*", Role.OPERATOR)}
    identity = Identity.objects.get()
    assert (identity.user, identity.issuer, identity.subject) == (ada, server.issuer, "a1")
    made, given = Act.objects.order_by("id")
    assert (made.kind, made.who) == ("create_user", "Keys & Co")
    assert (given.kind, given.topic_name, given.who) == ("set_role", "shop/*", "Keys & Co")
    assert 12 * 3600 - 60 < browser.session.get_expiry_age() <= 12 * 3600


def test_the_next_login_finds_the_same_user_and_reads_the_roles_again(
    browser: Client, server: LoginServer
) -> None:
    server.person |= {"groups": ["shop-team", "auditors"]}
    go(browser, server)
    assert roles() == {("shop/*", Role.OPERATOR), ("bank/*", Role.VIEWER)}
    granted(User.objects.get(), {"garden/*": Role.ADMIN})
    server.person |= {"groups": ["auditors"], "preferred_username": "ada.married"}
    go(Client(), server)
    assert roles() == {("shop/*", Role.VIEWER), ("bank/*", Role.VIEWER), ("garden/*", Role.ADMIN)}
    acts = Act.objects.count()
    go(Client(), server)
    assert Act.objects.count() == acts
    server.person |= {"groups": []}
    go(Client(), server)
    assert roles() == {("garden/*", Role.ADMIN)}
    assert User.objects.get().username == "ada"


def test_commands_give_the_role_back_that_a_login_took_from_the_last_admin(
    browser: Client, server: LoginServer
) -> None:
    server.person |= {"groups": ["platform"]}
    go(browser, server)
    server.person |= {"groups": []}
    go(Client(), server)
    assert roles() == set()
    call_command("setrole", "ada", "*", "admin")
    go(Client(), server)
    assert roles() == {("*", Role.ADMIN)}
    call_command("createadmin")
    assert User.objects.get(is_superuser=True).username == "admin"


def test_a_role_given_here_for_the_same_pattern_stays(browser: Client, server: LoginServer) -> None:
    server.person |= {"groups": ["auditors"]}
    go(browser, server)
    admin = person("eve", {"*": Role.ADMIN})
    assert admin.post("/users/u/ada/role", {"pattern": "shop/*", "role": "admin"}).status_code == 302
    server.person |= {"groups": []}
    go(browser, server)
    assert roles() == {("shop/*", Role.ADMIN)}


def test_the_users_page_says_which_roles_come_from_the_login(browser: Client, server: LoginServer) -> None:
    server.person |= {"groups": ["auditors"]}
    go(browser, server)
    admin = person("eve", {"*": Role.ADMIN})
    page = admin.get("/users/u/ada")
    assert "shop/* viewer by group, at each login" in text_of(page)
    assert "Remove the role" not in page.content.decode()
    assert "New password" not in text_of(page)
    assert "viewer of shop/* by group" in text_of(admin.get("/users"))
    refused = admin.post("/users/u/ada/role", {"pattern": "shop/*", "role": "none"})
    assert (refused.status_code, "ada has no role for shop/*" in text_of(refused)) == (409, True)
    assert roles() == {("shop/*", Role.VIEWER), ("bank/*", Role.VIEWER)}
    assert admin.post("/users/u/ada/password", {"password": "horse-staple-9"}).status_code == 409
    assert "has no password here" in text_of(admin.post("/users/u/ada/password", {"password": ""}))
    own = text_of(browser.get("/account"))
    assert "You log in at the login server" in own
    assert "Current password" not in own
    assert "QR" not in browser.get("/account/second-factor").content.decode()
    assert browser.post("/account/second-factor", {"password": "", "code": "0"}).status_code == 422


def test_a_user_without_a_group_that_gives_a_role_learns_what_to_ask_for(
    browser: Client, server: LoginServer
) -> None:
    server.person |= {"groups": ["kitchen", "<b>bold</b>"]}
    assert go(browser, server)["Location"] == "/"
    answer = browser.get("/")
    words = text_of(answer)
    assert answer.status_code == 403
    assert "Your name here is ada, and your groups at Keys &amp; Co are: kitchen, &lt;b&gt;bold" in words
    assert "Ask an administrator of Vela" in words
    assert "shop" not in words
    assert browser.get("/account").status_code == 200
    del server.person["groups"]
    go(browser, server)
    assert "your groups at Keys &amp; Co are: none" in text_of(browser.get("/"))


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("groups", "auditors"),
        ("roles", ["auditors"]),
        ("realm_access.roles", ["auditors"]),
        ("https://vela.example/groups", ["auditors", 7, None]),
    ],
)
def test_the_claim_with_the_groups_may_have_any_name(
    claim: str, value: Any, browser: Client, server: LoginServer, configure: Callable[..., None]
) -> None:
    configure(oidc_groups_claim=claim)
    server.person |= {"realm_access": {"roles": value}} if claim.startswith("realm") else {claim: value}
    go(browser, server)
    assert ("shop/*", Role.VIEWER) in roles()
    assert "/userinfo" not in server.asked


def test_groups_may_be_in_the_userinfo(browser: Client, server: LoginServer) -> None:
    server.userinfo = {"sub": "a1", "groups": ["auditors"], "preferred_username": "mallory"}
    go(browser, server)
    assert ("shop/*", Role.VIEWER) in roles("ada")


def test_the_userinfo_of_somebody_else_does_not_count(browser: Client, server: LoginServer) -> None:
    server.userinfo = {"sub": "b2", "groups": ["platform"]}
    go(browser, server)
    assert roles() == set()


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "ada"}, "ada"),
        ({"preferred_username": "A. L.", "email": "a@b.example", "email_verified": True}, "a@b.example"),
        ({"preferred_username": "x" * 151, "email": "a@b.example"}, "a1"),
        ({"preferred_username": None}, "a1"),
    ],
)
def test_a_new_user_gets_the_first_usable_name(
    claims: Claims, name: str, browser: Client, server: LoginServer
) -> None:
    server.person |= claims
    assert go(browser, server).status_code == 302
    assert User.objects.get().username == name


def test_a_user_without_a_usable_name_is_refused(browser: Client, server: LoginServer) -> None:
    server.person = {"sub": "auth0|7 7"}
    assert "None of the claims" in refusal(go(browser, server))
    assert not User.objects.exists()


def test_a_subject_that_cannot_be_stored_is_refused(browser: Client, server: LoginServer) -> None:
    server.person |= {"sub": "a\0b"}
    assert "contains a NUL" in refusal(go(browser, server))


def test_a_login_does_not_take_over_a_local_user_of_the_same_name(
    browser: Client, server: LoginServer
) -> None:
    granted(User.objects.create_user("ada", password="tested-7"), {"*": Role.ADMIN})
    assert "Another user is named ada already" in refusal(go(browser, server))
    assert not Identity.objects.exists()


def test_another_subject_with_the_same_name_is_another_user(browser: Client, server: LoginServer) -> None:
    go(browser, server)
    server.person |= {"sub": "b2"}
    assert "Another user is named ada already" in refusal(go(Client(), server))


def test_two_first_logins_at_once_are_the_same_user(
    browser: Client, server: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_in = identities._name_in

    def after_another_login(claims: Claims) -> str:
        monkeypatch.setattr(identities, "_name_in", name_in)
        identities.user_of(claims, broker_settings(), origin="another tab")
        return name_in(claims)

    monkeypatch.setattr(identities, "_name_in", after_another_login)
    assert go(browser, server).status_code == 302
    assert Identity.objects.get().user.username == "ada"
    assert Act.objects.filter(kind="create_user").count() == 1


@pytest.mark.parametrize("verified", [False, "false"])
def test_an_unverified_e_mail_address_is_refused(verified: Any, browser: Client, server: LoginServer) -> None:
    server.person |= {"email": "ada@shop.example", "email_verified": verified}
    assert "has not verified your e-mail address" in refusal(go(browser, server))
    assert not User.objects.exists()


def test_a_deactivated_user_is_refused(browser: Client, server: LoginServer) -> None:
    go(browser, server)
    User.objects.update(is_active=False)
    assert "The user ada is deactivated" in refusal(go(Client(), server))


@pytest.mark.parametrize("state", ["", "forged", "%00"])
def test_a_wrong_state_is_refused(state: str, browser: Client, server: LoginServer) -> None:
    back = urlsplit(server.log_in(browser.get("/login/oidc")["Location"]))
    code = parse_qs(back.query)["code"][0]
    answer = browser.get(f"/login/oidc/callback?code={code}&state={state}")
    assert answer.status_code == 400 if state == "%00" else "did not begin here" in refusal(answer)
    assert "/token" not in server.asked


def test_the_redirect_back_from_the_server_counts_only_in_the_browser_that_began(
    browser: Client, server: LoginServer
) -> None:
    back = server.log_in(browser.get("/login/oidc")["Location"])
    assert "did not begin here" in refusal(Client().get(back))
    assert browser.get(back).status_code == 302
    assert "did not begin here" in text_of(browser.get(back))


def test_a_login_takes_ten_minutes_at_most(
    browser: Client, server: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "LASTS_S", -1)
    assert "too long ago" in refusal(go(browser, server))


def test_several_tabs_may_log_in_at_once_but_not_too_many(browser: Client, server: LoginServer) -> None:
    backs = [server.log_in(browser.get("/login/oidc")["Location"]) for _ in range(6)]
    assert "did not begin here" in refusal(browser.get(backs[0]))
    assert browser.get(backs[1]).status_code == 302


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nonce": "another"}, "does not belong to this login"),
        ({"nonce": None}, "does not belong to this login"),
        ({"aud": "another"}, "does not belong to this login"),
        ({"aud": ["another", "third"]}, "does not belong to this login"),
        ({"aud": [CLIENT_ID, "another"]}, "is for another application"),
        ({"azp": "another"}, "is for another application"),
        ({"iss": "https://elsewhere.example"}, "does not belong to this login"),
        ({"exp": int(time.time()) - 120}, "has expired"),
        ({"exp": None}, "does not belong to this login"),
        ({"iat": int(time.time()) + 3600}, "does not belong to this login"),
        ({"sub": None}, "does not belong to this login"),
        ({"sub": 7}, "does not belong to this login"),
        ({"sub": ""}, "does not belong to this login"),
    ],
)
def test_a_token_that_does_not_fit_is_refused(
    change: Claims, words: str, browser: Client, server: LoginServer
) -> None:
    server.change = lambda claims: {
        name: value for name, value in {**claims, **change}.items() if value is not None
    }
    assert words in refusal(go(browser, server))
    assert not User.objects.exists()


def test_a_token_for_several_applications_is_taken_if_this_one_asked(
    browser: Client, server: LoginServer
) -> None:
    server.change = lambda claims: {**claims, "aud": [CLIENT_ID, "another"], "azp": CLIENT_ID}
    assert go(browser, server).status_code == 302


@pytest.mark.parametrize("how", ["another key", "an unknown key", "HMAC", "none", "nonsense"])
def test_a_token_with_a_wrong_signature_is_refused(
    how: str, browser: Client, server: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "another key":
        server.signs_with = ECKey.generate_key("P-256", {"kid": "one"})
    elif how == "an unknown key":
        server.signs_with = ECKey.generate_key("P-256", {"kid": "two"})
    elif how == "HMAC":
        server.algorithm = "HS256"
        server.signs_with = OctKey.import_key(CLIENT_SECRET * 4, {"kid": "one"})  # type: ignore[assignment]
    elif how == "none":
        server.algorithm = "none"
    else:
        monkeypatch.setattr("tests.support.login_server.jwt.encode", lambda *_, **__: "no.token.atall")
    assert "does not belong to this login" in refusal(go(browser, server))
    assert not User.objects.exists()


def test_a_server_may_change_its_keys(
    browser: Client, server: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(browser, server)
    server.key = server.signs_with = RSAKey.generate_key(2048, {"kid": "two"})
    server.algorithm = "RS256"
    monkeypatch.setattr(known_servers, "_KEYS_ANEW_S", 0.0)
    assert go(Client(), server).status_code == 302
    assert server.asked.count("/keys") == 2
    assert server.asked.count("/.well-known/openid-configuration") == 1


def test_the_page_shows_the_servers_refusal(browser: Client, server: LoginServer) -> None:
    state = parse_qs(urlsplit(browser.get("/login/oidc")["Location"]).query)["state"][0]
    answer = browser.get("/login/oidc/callback", {"state": state, "error": "access_denied<script>"})
    assert "It says: access_denied&lt;script&gt;" in refusal(answer)


def test_an_answer_of_another_server_is_refused(browser: Client, server: LoginServer) -> None:
    back = server.log_in(browser.get("/login/oidc")["Location"])
    answer = browser.get(back.partition("&iss=")[0], {**_query(back), "iss": "https://elsewhere.example"})
    assert "comes from another login server" in refusal(answer)
    assert "/token" not in server.asked


def _query(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def test_the_log_reports_a_wrong_secret_without_the_secret(
    browser: Client, server: LoginServer, configure: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    configure(oidc_client_secret="wrong-hush")
    answer = go(browser, server)
    assert "did not accept this login" in refusal(answer)
    assert "invalid_client" in caplog.text
    assert "wrong-hush" not in caplog.text + answer.content.decode()


def test_no_secret_is_on_a_page_or_in_the_log(
    browser: Client, server: LoginServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.change = lambda claims: {**claims, "nonce": "another"}
    begun = browser.get("/login/oidc")
    answer = browser.get(server.log_in(begun["Location"]))
    verifiers = CLIENT_SECRET, "opaque"
    for text in (begun["Location"], answer.content.decode(), caplog.text):
        assert not [secret for secret in verifiers if secret in text]


@pytest.mark.parametrize("methods", [None, ["client_secret_post"], ["client_secret_basic"]])
def test_the_secret_is_sent_as_the_server_takes_it(
    methods: list[str] | None, browser: Client, server: LoginServer
) -> None:
    server.discovery = {"token_endpoint_auth_methods_supported": methods} if methods else {}
    assert go(browser, server).status_code == 302


def test_the_secret_may_be_in_a_file(
    browser: Client, server: LoginServer, configure: Callable[..., None], tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    configure(oidc_client_secret="", oidc_client_secret_file=file)
    begun = browser.get("/login/oidc")
    away = browser.get(server.log_in(begun["Location"]))
    assert (away.status_code, str(file) in away.content.decode()) == (503, False)
    file.write_text(f"{CLIENT_SECRET}\n", encoding="utf-8")
    assert go(browser, server).status_code == 302


@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_server_that_is_away_makes_a_page_and_no_500(
    when: str, status: int, browser: Client, server: LoginServer, caplog: pytest.LogCaptureFixture
) -> None:
    back = server.log_in(browser.get("/login/oidc")["Location"])
    server.status = status
    if when == "before":
        known_servers.forget()
        answer = browser.get("/login/oidc")
        assert answer.status_code == 503
    else:
        answer = browser.get(back)
        assert answer.status_code == (503 if status == 500 else 403)
    assert "Not logged in" in text_of(answer)
    assert "nobody can log in" in caplog.text or answer.status_code == 403
    assert browser.get("/login").status_code == 200


def test_an_unreachable_server_is_named_with_503(browser: Client, configure: Callable[..., None]) -> None:
    configure(oidc_issuer="http://127.0.0.1:9")
    answer = browser.get("/login/oidc")
    assert (answer.status_code, "does not answer as it should" in text_of(answer)) == (503, True)


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://elsewhere.example"},
        {"authorization_endpoint": None},
        {"token_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "https://["},
        {"jwks_uri": 7},
    ],
)
def test_an_invalid_discovery_document_is_refused(
    discovery: dict[str, Any], browser: Client, server: LoginServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.discovery = discovery
    assert browser.get("/login/oidc").status_code == 503
    assert "nobody can log in" in caplog.text


@pytest.mark.parametrize("keys", [{}, {"keys": [{"kty": "EC"}]}, {"keys": 7}, {"keys": []}])
def test_an_invalid_key_set_is_refused(
    keys: Any, browser: Client, server: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = server.answer

    def spoilt(method: str, path: str, headers: Any, body: str) -> tuple[int, Any]:
        return (200, keys) if path == "/keys" else answered(method, path, headers, body)

    monkeypatch.setattr(server, "answer", spoilt, raising=False)
    assert go(browser, server).status_code in (403, 503)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"kty": "EC", "crv": "BP-256", "kid": "b", "x": "AA", "y": "AA"},
        {"kty": "AKP", "alg": "ML-DSA-44", "kid": "c", "pub": "AA"},
        {"kty": "RSA", "kid": "d", "use": "enc"},
        7,
    ],
)
def test_a_key_that_cannot_be_read_does_not_hide_the_others(
    other: Any, browser: Client, server: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = server.answer

    def with_another(method: str, path: str, headers: Any, body: str) -> tuple[int, Any]:
        status, answer = answered(method, path, headers, body)
        return (status, {"keys": [other, *answer["keys"]]}) if path == "/keys" else (status, answer)

    monkeypatch.setattr(server, "answer", with_another, raising=False)
    assert go(browser, server).status_code == 302


@pytest.mark.parametrize("next_page", ["https://elsewhere.example/", "//elsewhere.example", "javascript:x"])
def test_a_login_does_not_lead_elsewhere(next_page: str, browser: Client, server: LoginServer) -> None:
    assert go(browser, server, next_page)["Location"] == "/"


def test_the_setting_about_second_factors_does_not_apply_to_users_of_the_login_server(
    browser: Client, server: LoginServer, configure: Callable[..., None]
) -> None:
    configure(require_second_factor="everybody")
    go(browser, server)
    assert browser.get("/account").status_code == 200


def test_a_password_that_django_gave_a_user_of_the_login_server_does_not_work(
    browser: Client, server: LoginServer, configure: Callable[..., None]
) -> None:
    go(browser, server)
    ada = User.objects.get(username="ada")
    ada.is_staff = True
    ada.set_password("tested-7")  # as /django-admin/ and `manage.py changepassword` do
    ada.save()
    configure(require_second_factor="everybody")
    given = {"username": "ada", "password": "tested-7"}
    for address, refusal in (
        ("/login", "The name or the password is wrong."),
        ("/django-admin/login/", "correct username and password"),
    ):
        assert refusal in text_of(Client().post(address, given))
    basic = {"Authorization": f"Basic {b64encode(b'ada:tested-7').decode()}"}
    assert Client().get("/api/v1/topics", headers=basic).status_code == 401
    assert go(Client(), server).status_code == 302


def test_without_local_logins_only_superusers_log_in_with_a_password(
    browser: Client, server: LoginServer, configure: Callable[..., None]
) -> None:
    User.objects.create_user("vera", password="tested-7")
    User.objects.create_superuser("root", password="tested-7")
    configure(local_login=False)
    page = browser.get("/login")
    assert "Log in with Keys" in text_of(page)
    assert "id_password" not in page.content.decode()
    assert "id_password" in browser.get("/login?password").content.decode()
    given = {"username": "vera", "password": "tested-7"}
    assert async_to_sync(logins.Users().aauthenticate)(None, **given) is None
    refused = browser.post("/login", given)
    assert "The name or the password is wrong." in text_of(refused)
    assert Client().post("/login", {"username": "root", "password": "tested-7"}).status_code == 302
    assert go(browser, server).status_code == 302


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_cause_no_fault(what: str, browser: Client, server: LoginServer) -> None:
    browser.raise_request_exception = False
    value = HOSTILE[what]
    state = parse_qs(urlsplit(browser.get("/login/oidc")["Location"]).query)["state"][0]
    for address in (
        f"/login/oidc?next={value}",
        f"/login/oidc/callback?state={value}&code=x",
        f"/login/oidc/callback?state={state}&code={value}",
        f"/login/oidc/callback?state={state}&error={value}",
    ):
        answer = browser.get(address)
        assert answer.status_code < 500, address
        assert "<script>alert" not in answer.content.decode()
    assert not User.objects.exists()
