"""manage.py token and permission: what they store, print, log and refuse."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from joserfc.jwk import ECKey, RSAKey

from broker.acts import access
from broker.conf import BrokerSettings
from broker.core.access.tokens import asymmetric_key, secret_key, verify
from broker.management.commands import token as token_command
from broker.models import AccessToken, Act, GrantedPermission
from tests.support.tokens import ENVIRONMENT, SECRET

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        token_command, "broker_settings", lambda: BrokerSettings.from_environment(ENVIRONMENT)
    )


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def logged() -> list[tuple[str, str, object]]:
    return [(each.kind, each.topic_name, each.parameters) for each in Act.objects.order_by("id")]


def test_a_token_is_printed_once_and_its_row_has_no_token() -> None:
    made = run("token", "create", "billing", "--expires", "12h").strip()
    principal = verify(made, [secret_key(SECRET.encode())], now_ms=0)
    assert principal.role == "billing"
    (row,) = AccessToken.objects.all()
    assert row.id == principal.token_id
    assert row.expires_at is not None
    assert principal.expires_ms == row.expires_at.timestamp() * 1000
    assert (row.expires_at - row.created_at).total_seconds() == pytest.approx(43_200, abs=5)
    assert made not in json.dumps([str(each) for each in AccessToken.objects.values_list()])
    assert f"{row.id}  billing  made " in run("token", "list")
    assert logged() == [("create_token", "*", {"token": row.id, "role": "billing"})]


def test_a_token_can_last_for_ever_and_be_signed_by_a_private_key(tmp_path: Path) -> None:
    pair = ECKey.generate_key("P-256")
    path = tmp_path / "private.pem"
    path.write_bytes(pair.as_pem(private=True))
    made = run("token", "create", "app", "--expires", "never", "--private-key", str(path)).strip()
    assert verify(made, [asymmetric_key(pair.as_pem(private=False))], now_ms=10**15).expires_ms is None
    assert "never expires" in run("token", "list")


def test_a_secret_key_in_a_file_signs_beside_a_public_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    environment = {
        "VELA_AUTHENTICATION": "token",
        "VELA_TOKEN_SECRET_KEY_FILE": str(path),
        "VELA_TOKEN_PUBLIC_KEY": RSAKey.generate_key(2048).as_pem(private=False).decode(),
    }
    monkeypatch.setattr(
        token_command, "broker_settings", lambda: BrokerSettings.from_environment(environment)
    )
    made = run("token", "create", "billing").strip()
    assert verify(made, [secret_key(SECRET.encode())], now_ms=0).role == "billing"


def test_a_token_needs_a_role() -> None:
    with pytest.raises(CommandError, match="the name of a role is empty"):
        run("token", "create", " ")
    assert not AccessToken.objects.exists()


def test_a_public_key_cannot_sign(tmp_path: Path) -> None:
    path = tmp_path / "public.pem"
    path.write_bytes(ECKey.generate_key("P-256").as_pem(private=False))
    with pytest.raises(CommandError, match="has no private key: it is a public key"):
        run("token", "create", "app", "--private-key", str(path))


def test_a_token_is_revoked_once_even_if_it_was_made_elsewhere() -> None:
    run("token", "create", "app")
    (row,) = AccessToken.objects.all()
    assert run("token", "revoke", row.id) == f"token {row.id} is revoked\n"
    run("token", "revoke", row.id)
    assert run("token", "revoke", "from-elsewhere").endswith(
        "no token with this id was made here: check the id\n"
    )
    assert AccessToken.objects.filter(revoked_at__isnull=False).count() == 2
    assert [kind for kind, _, _ in logged()] == ["create_token", "revoke_token", "revoke_token"]
    assert run("token", "list").count("revoked ") == 2
    assert "(made elsewhere)  revoked " in run("token", "list")  # whether it expires is not known here


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("create", "app", "--expires", "soon"), "is not a length of time"),
        (("create", "app", "--private-key", "/nonexistent"), "cannot be read"),
        (("create", "app", "--private-key", __file__), "has no private key"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run("token", *words)


def test_without_a_key_no_token_is_made() -> None:
    with pytest.raises(access.NoSigningKey, match="VELA_TOKEN_SECRET_KEY_FILE"):
        access.create_token(
            BrokerSettings.from_environment({}), "app", lifetime_ms=None, who="op", origin="test"
        )
    assert not AccessToken.objects.exists()


def test_permissions_are_set_replaced_and_taken() -> None:
    run("permission", "set", "shop", "manager", "admin")
    run("permission", "set", "shop/eu", "app", "produce", "consume")
    run("permission", "set", "shop/eu", "app", "consume", "--subscription", "billing")
    assert run("permission", "set", "persistent://shop/eu/orders-partition-3", "reader", "consume") == (
        "reader on persistent://shop/eu/orders: consume\n"
    )
    assert run("permission", "list").splitlines() == [
        "shop  manager  admin",
        "shop/eu  app  consume",
        "shop/eu  app  produce",
        "shop/eu, subscription billing  app  consume",
        "persistent://shop/eu/orders  reader  consume",
    ]
    run("permission", "set", "shop/eu", "app", "consume")
    assert run("permission", "set", "shop", "manager") == "manager on shop: nothing\n"
    assert GrantedPermission.objects.count() == 3
    assert logged()[-1] == ("set_permissions", "shop/*", {"role": "manager", "permissions": []})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shop", "app", "produce"), "produce cannot be granted on shop: use admin"),
        (("shop/eu", "app", "admin"), "admin cannot be granted on shop/eu"),
        (("shop/eu", "app", "read"), "use produce, consume"),
        (("shop/eu", "app", "produce", "--subscription", "s"), "use consume"),
        (("shop", "app", "consume", "--subscription", "s"), "a subscription is in a namespace"),
        (("persistent://shop/eu/t", "app", "--subscription", "s"), "name the namespace, not a topic"),
        (("a b/c", "app", "consume"), "may have letters"),
        (("persistent://x", "app", "consume"), "is not a topic name"),
    ],
)
def test_a_permission_that_cannot_be_granted_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run("permission", "set", *words)
    assert not GrantedPermission.objects.exists()
