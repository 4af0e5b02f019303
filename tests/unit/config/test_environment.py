"""Settings read from the environment: every complaint names the setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import settings
from config.celery_transport import broker_url
from config.environment import Environment, SettingInvalid, database_options, database_parts


def test_a_database_url_is_taken_apart() -> None:
    parts = database_parts("postgresql://some%40body:p%2Fw@[::1]:5433/my%20db?sslmode=require")
    assert parts == {"NAME": "my db", "USER": "some@body", "PASSWORD": "p/w", "HOST": "::1", "PORT": "5433"}
    assert database_options("postgresql://h/d?sslmode=require") == {"sslmode": "require"}


@pytest.mark.parametrize(
    "url",
    ["", "vela", "mysql://h/d", "postgresql://h", "postgresql://u:hush@h:port/d", "postgresql://u:hush@[h/d"],
)
def test_a_broken_database_url_is_named_without_its_password(url: str) -> None:
    with pytest.raises(SettingInvalid, match="DATABASE_URL") as refused:
        database_parts(url)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "port"), [("", 8000), ("1", 1), ("65535", 65535), ("0", None), ("65536", None), ("x", None)]
)
def test_a_port_is_checked(value: str, port: int | None) -> None:
    environment = Environment({"VELA_CONSOLE_PORT": value})
    if port is not None:
        assert environment.port("VELA_CONSOLE_PORT", 8000) == port
        return
    with pytest.raises(SettingInvalid, match="VELA_CONSOLE_PORT"):
        environment.port("VELA_CONSOLE_PORT", 8000)


def test_a_switch_is_checked() -> None:
    assert Environment({"VELA_HTTPS": "yes"}).flag("VELA_HTTPS")
    assert not Environment({"VELA_HTTPS": "0"}).flag("VELA_HTTPS", default=True)
    with pytest.raises(SettingInvalid, match="VELA_HTTPS"):
        Environment({"VELA_HTTPS": "perhaps"}).flag("VELA_HTTPS")


def test_the_embedded_servers_address_is_found_in_the_data_folder(tmp_path: Path) -> None:
    environment = Environment({"VELA_DATA_DIR": str(tmp_path), "VELA_PG_PORT": "5555"})
    assert environment.database_url() == "postgresql://vela@127.0.0.1:5555/vela"
    (tmp_path / "database-url").write_text("postgresql://vela:pw@127.0.0.1:5556/vela\n")
    assert environment.database_url() == "postgresql://vela:pw@127.0.0.1:5556/vela"


def test_celery_uses_the_same_database_unless_told_otherwise() -> None:
    own = Environment({"DATABASE_URL": "postgres://u:p@h:5432/d?sslmode=require"})
    assert broker_url(own) == "velapg+postgresql+psycopg://u:p@h:5432/d?sslmode=require"
    redis = Environment({"VELA_CELERY_BROKER_URL": "redis://h/0", "DATABASE_URL": "postgres://h/d"})
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
def test_the_console_always_answers_to_the_loopback_names(
    variables: dict[str, str], more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "environment", Environment(variables))
    assert settings._allowed_hosts() == ["localhost", "127.0.0.1", "[::1]", *more]
