"""Tokens that the broker has verified and remembers."""

from __future__ import annotations

import pytest

from broker.access.authentication import MAX_TOKEN_BYTES, Authentication
from broker.conf import BrokerSettings
from broker.core.access.credentials import Credentials
from broker.core.errors import AuthenticationFailed
from tests.support.tokens import ENVIRONMENT, START_MS, token


@pytest.fixture
def authentication() -> Authentication:
    return Authentication(BrokerSettings.from_environment(ENVIRONMENT))


def test_a_token_is_remembered_once_whatever_spaces_are_around_it(authentication: Authentication) -> None:
    made = token("app").encode()
    for spaces in (b"", b" ", b" \n" * 1000):
        found = authentication.now(Credentials(data=spaces + made + spaces), START_MS)
        assert found is not None
        assert found.role == "app"
    assert list(authentication._verified) == [made]


def test_a_very_long_token_is_refused_unread(authentication: Authentication) -> None:
    with pytest.raises(AuthenticationFailed, match="the limit is 65536"):
        authentication.now(Credentials(data=b"x" * (MAX_TOKEN_BYTES + 1)), START_MS)
