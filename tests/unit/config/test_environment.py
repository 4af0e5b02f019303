"""Settings read from the environment: every complaint names the setting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.environment import read_settings
from config import settings
from config.celery_transport import broker_url
from config.environment import (
    ProjectSettings,
    SettingInvalid,
    database_options,
    database_parts,
    libpq_option,
)


def test_a_database_url_is_split_into_djangos_settings() -> None:
    parts = database_parts("postgresql://some%40body:p%2Fw@[::1]:5433/my%20db?sslmode=require")
    assert parts == {"NAME": "my db", "USER": "some@body", "PASSWORD": "p/w", "HOST": "::1", "PORT": "5433"}
    assert database_options("postgresql://h/d?sslmode=require") == {"sslmode": "require"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "vela",
        "mysql://h/d",
        "postgresql://h",
        "postgresql://u:hush@h:port/d",
        "postgresql://u:hush@[h/d",
        "postgresql://u:hush/x@h/d",
    ],
)
def test_a_broken_database_url_is_named_without_its_password(url: str) -> None:
    with pytest.raises(SettingInvalid, match="DATABASE_URL") as refused:
        database_parts(url)
    assert "hush" not in str(refused.value)


def test_a_broken_mail_server_is_named_without_its_password() -> None:
    with pytest.raises(SettingInvalid, match="VELA_SMTP_URL") as refused:
        ProjectSettings.from_environment({"VELA_SMTP_URL": "smtp://u:hush/x@h"})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "port"), [("", 8000), ("1", 1), ("65535", 65535), ("0", None), ("65536", None), ("x", None)]
)
def test_a_port_is_a_number_from_1_to_65535_or_the_default(value: str, port: int | None) -> None:
    environment = {"VELA_CONSOLE_PORT": value}
    if port is not None:
        assert ProjectSettings.from_environment(environment).console_port == port
        return
    with pytest.raises(
        SettingInvalid, match=f"VELA_CONSOLE_PORT is '{value}': it takes a number from 1 to 65535"
    ):
        ProjectSettings.from_environment(environment)


def test_a_switch_takes_true_or_false_only() -> None:
    for value in ("1", "true", "yes", "ON"):
        assert ProjectSettings.from_environment({"VELA_HTTPS": value}).https
    for value in ("0", "False", "no", "off"):
        assert not ProjectSettings.from_environment({"VELA_WHEEL": value}).wheel_enabled
    with pytest.raises(SettingInvalid, match="VELA_HTTPS is 'perhaps': it takes 1 or 0"):
        ProjectSettings.from_environment({"VELA_HTTPS": "perhaps"})


def test_all_errors_are_reported_at_once_with_a_line_each() -> None:
    wrong = {
        "VELA_HTTP_PORT": "http",
        "VELA_LOG_LEVEL": "loud",
        "DATABASE_URL": "mysql://u:hush@h/d",
        "VELA_ALLOWED_ORIGINS": "https://a.example, null",
        "VELA_TICK_MS": "1000",
    }
    with pytest.raises(SettingInvalid) as refused:
        ProjectSettings.from_environment(wrong)
    lines = str(refused.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        "VELA_HTTP_PORT",
        "VELA_ALLOWED_ORIGINS",
        "DATABASE_URL",
        "VELA_LOG_LEVEL",
    ]
    assert "hush" not in str(refused.value)
    assert "'null' is not" in lines[1]
    assert "is 'loud': it takes DEBUG, INFO, WARNING, ERROR or CRITICAL" in lines[3]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("VELA_BIND", "not an address"),
        ("VELA_BIND", "[::1]"),
        ("VELA_BIND", "127.0.0.1:80"),
        ("VELA_ENTRY_FILTERS", "Filter"),
        ("VELA_INTERCEPTORS", "a.module.Name, a module.Name"),
    ],
)
def test_all_wrong_settings_are_reported_together(setting: str, value: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        ProjectSettings.from_environment({setting: value, "VELA_TICK_MS": "x"})
    assert {line.partition(" ")[0] for line in str(refused.value).splitlines()} == {setting, "VELA_TICK_MS"}


@pytest.mark.parametrize("value", ["127.0.0.1", "::1", "fe80::1%eth0", "a-host.example", "0.0.0.0"])
def test_an_address_to_listen_on_is_accepted(value: str) -> None:
    assert ProjectSettings.from_environment({"VELA_BIND": value}).bind == value


def test_a_blank_does_not_end_a_value_in_libpqs_options() -> None:
    assert libpq_option("a role\\") == "a\\ role\\\\"


@pytest.mark.parametrize("value", ["bar", "https://a.example,bar", "https://", "ftp://a.example"])
def test_a_csrf_origin_needs_a_scheme_and_a_host(value: str) -> None:
    with pytest.raises(SettingInvalid, match=r"VELA_CSRF_TRUSTED_ORIGINS is .*: it takes https://host:port"):
        ProjectSettings.from_environment({"VELA_CSRF_TRUSTED_ORIGINS": value})


def test_csrf_origins_may_name_all_subdomains() -> None:
    settings = ProjectSettings.from_environment(
        {"VELA_CSRF_TRUSTED_ORIGINS": "https://*.a.example, http://b:81"}
    )
    assert settings.csrf_trusted_origins == ("https://*.a.example", "http://b:81")


@pytest.mark.parametrize("value", ["hush", "://hush", "user:hush@host"])
def test_celery_s_broker_needs_a_scheme(value: str) -> None:
    with pytest.raises(
        SettingInvalid, match="VELA_CELERY_BROKER_URL cannot be used: it takes a URL"
    ) as refused:
        ProjectSettings.from_environment({"VELA_CELERY_BROKER_URL": value})
    assert "hush" not in str(refused.value)


def test_no_secret_is_shown_with_the_settings() -> None:
    secrets = {
        "VELA_SECRET_KEY": "hush",
        "VELA_ADMIN_PASSWORD": "hush",
        "DATABASE_URL": "postgresql://u:hush@h/d",
    }
    assert "hush" not in repr(ProjectSettings.from_environment(secrets))


def test_a_field_without_a_variable_is_a_mistake_in_the_code() -> None:
    @dataclass
    class Unnamed:
        port: int = 0

    with pytest.raises(TypeError, match=r"Unnamed\.port"):
        read_settings(Unnamed, {})


def test_the_embedded_servers_address_is_found_in_the_data_folder(tmp_path: Path) -> None:
    settings = ProjectSettings.from_environment({"VELA_DATA_DIR": str(tmp_path), "VELA_PG_PORT": "5555"})
    assert settings.database_address == "postgresql://vela@127.0.0.1:5555/vela"
    (tmp_path / "database-url").write_text("postgresql://vela:pw@127.0.0.1:5556/vela\n")
    assert settings.database_address == "postgresql://vela:pw@127.0.0.1:5556/vela"


def test_pages_keep_the_options_of_the_database_url() -> None:
    url = "postgresql://u@h/d?options=-csearch_path%3Dvela&sslmode=require"
    given = ProjectSettings.from_environment({"DATABASE_URL": url, "VELA_READ_ROLE": "a reader"})
    assert settings._options_of_pages(given) == (
        "-csearch_path=vela -c default_transaction_read_only=on -c statement_timeout=5000"
        " -c max_parallel_workers_per_gather=0 -c role=a\\ reader"
    )


def test_celery_uses_the_same_database_unless_told_otherwise() -> None:
    own = ProjectSettings.from_environment({"DATABASE_URL": "postgres://u:p@h:5432/d?sslmode=require"})
    assert broker_url(own) == "velapg+postgres://u:p@h:5432/d?sslmode=require"
    redis = ProjectSettings.from_environment(
        {"VELA_CELERY_BROKER_URL": "redis://h/0", "DATABASE_URL": "postgres://h/d"}
    )
    assert broker_url(redis) == "redis://h/0"


@pytest.mark.parametrize(
    ("variables", "more"),
    [
        ({}, []),
        (
            {"VELA_BIND": "0.0.0.0", "VELA_ALLOWED_HOSTS": "a.example, .b.example"},
            ["a.example", ".b.example"],
        ),
        ({"VELA_BIND": "fd00::1"}, ["[fd00::1]"]),
        ({"VELA_BIND": "10.0.0.5", "VELA_ALLOWED_HOSTS": "a.example"}, ["10.0.0.5", "a.example"]),
    ],
)
def test_the_console_always_answers_to_the_loopback_names(variables: dict[str, str], more: list[str]) -> None:
    hosts = settings._allowed_hosts(ProjectSettings.from_environment(variables))
    assert hosts[:3] == ["localhost", "127.0.0.1", "[::1]"]
    assert set(hosts[3:]) == set(more)


def test_roles_of_groups_are_read_with_any_group_name() -> None:
    text = "platform=admin:*; cn=shop,ou=groups=operator:shop/* ;/staff/a b=viewer:bank/accounts;"
    roles = ProjectSettings.from_environment({"VELA_OIDC_ROLES": text}).oidc_roles
    assert [(each.group, each.role, each.pattern) for each in roles] == [
        ("platform", "admin", "*"),
        ("cn=shop,ou=groups", "operator", "shop/*"),
        ("/staff/a b", "viewer", "bank/accounts"),
    ]


@pytest.mark.parametrize(
    "text", ["x", "a=king:*", "a=admin:shop", "=admin:*", "a=admin", "a=admin:*,b=admin:*"]
)
def test_a_role_that_makes_no_sense_is_named(text: str) -> None:
    with pytest.raises(SettingInvalid, match=r"VELA_OIDC_ROLES is .*: it takes group=role:pattern"):
        ProjectSettings.from_environment({"VELA_OIDC_ROLES": text})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("login.example.org", "a URL without a query"),
        ("https://", "a URL without a query"),
        ("https://login.example.org/?realm=a", "a URL without a query"),
        ("https://login.example.org:port", "cannot be read"),
        ("http://login.example.org", "an https URL"),
        ("file:///etc/passwd", "a URL without a query"),
    ],
)
def test_an_issuer_is_checked(url: str, words: str) -> None:
    with pytest.raises(SettingInvalid, match=f"VELA_OIDC_ISSUER is .*{words}"):
        ProjectSettings.from_environment({"VELA_OIDC_ISSUER": url})


LOGIN_SERVER = {
    "VELA_OIDC_ISSUER": "http://localhost:8180/realms/staff",
    "VELA_OIDC_CLIENT_ID": "vela",
    "VELA_OIDC_CLIENT_SECRET": "hush",
}


def test_a_login_server_needs_a_client_and_one_secret() -> None:
    settings = ProjectSettings.from_environment({**LOGIN_SERVER, "VELA_LOCAL_LOGIN": "0"})
    assert settings.oidc_issuer == LOGIN_SERVER["VELA_OIDC_ISSUER"]
    assert "hush" not in repr(settings)
    for change, words in (
        ({"VELA_OIDC_CLIENT_ID": ""}, "VELA_OIDC_CLIENT_ID is not set"),
        ({"VELA_OIDC_CLIENT_SECRET": ""}, "needs a secret"),
        ({"VELA_OIDC_CLIENT_SECRET_FILE": "/run/secret"}, "set either"),
        ({"VELA_OIDC_SCOPES": "profile"}, "openid among them"),
        ({"VELA_OIDC_ISSUER": "", "VELA_LOCAL_LOGIN": "0"}, "nobody could log in"),
    ):
        with pytest.raises(SettingInvalid, match=words) as refused:
            ProjectSettings.from_environment({**LOGIN_SERVER, **change})
        assert "hush" not in str(refused.value)
