"""An authenticator app on a user's phone, and a clock that only the test moves."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django_otp.oath import hotp

from console.people.second_factor import new_secret, switch_on

__all__ = ["Phone", "equipped", "secret_on"]

STEP_S = 30


class Phone:
    """The app, which shows codes. The console reads the same clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_790_000_010.0
        self.secret = ""
        monkeypatch.setattr("console.people.second_factor.time.time", lambda: self.now_s)

    def code(self, *, early_s: float = 0) -> str:
        """Return the code that the app shows now, or would show if its clock were `early_s` ahead."""
        step = int((self.now_s + early_s) // STEP_S)
        return f"{hotp(base64.b32decode(self.secret), step):06}"

    def later(self, seconds: float = STEP_S) -> Phone:
        """Move the clock forward, and return the phone."""
        self.now_s += seconds
        return self


def equipped(user: User, phone: Phone) -> list[str]:
    """Give a user a second factor on this phone, and return the recovery codes. The phone's next code is unused."""
    phone.secret = new_secret()
    codes = switch_on(user, phone.secret, phone.code())
    phone.later()
    return codes


def secret_on(page: Any) -> str:
    """Return the secret that a page shows for typing."""
    found = re.search(r'class="made-password">([A-Z2-7 ]+)<', page.content.decode())
    assert found, page.content.decode()
    return found[1].replace(" ", "")
