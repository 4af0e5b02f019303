"""VELA_SMTP_URL, and the mail settings of Django that follow from it."""

from __future__ import annotations

import pytest

from config.environment import ProjectSettings, SettingInvalid, email_parts


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "ssl"),
    [
        ("smtp://mail", "mail", 25, False, False),
        ("smtp+tls://mail", "mail", 587, True, False),
        ("smtps://ann:p%40ss@mail:2465", "mail", 2465, False, True),
    ],
)
def test_a_mail_server_is_read(url: str, host: str, port: int, tls: bool, ssl: bool) -> None:
    parts = email_parts(ProjectSettings.from_environment({"VELA_SMTP_URL": url}).smtp_url)
    assert (parts["EMAIL_HOST"], parts["EMAIL_PORT"]) == (host, port)
    assert (parts["EMAIL_USE_TLS"], parts["EMAIL_USE_SSL"]) == (tls, ssl)
    assert parts["EMAIL_HOST_PASSWORD"] == ("p@ss" if "ann" in url else "")


@pytest.mark.parametrize("url", ["mail:25", "http://mail", "smtp://", "smtp://ann:secret@mail:abc"])
def test_a_wrong_mail_server_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(SettingInvalid, match="VELA_SMTP_URL") as refused:
        ProjectSettings.from_environment({"VELA_SMTP_URL": url})
    assert "secret" not in str(refused.value)


def test_without_a_url_django_s_defaults_count() -> None:
    assert email_parts("") == {}
