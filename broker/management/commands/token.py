"""`manage.py token` makes, lists and revokes the tokens with which clients prove their role."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.acts import access
from broker.conf import SettingInvalid, broker_settings
from broker.core.access.tokens import TokenKey, TokenKeyInvalid, asymmetric_key
from broker.core.errors import NotAllowed
from broker.management.caller import caller
from broker.models import AccessToken
from vela.wire.errors import InvalidQuantity
from vela.wire.quantities import read_length_ms

NEVER: Final = "never"
_ORIGIN: Final = "command line"


class Command(BaseCommand):
    help = "Make, list and revoke the tokens of clients."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a token and print it, once")
        create.add_argument("role", help="what the token proves; permissions are granted to roles")
        create.add_argument("--expires", default="30d", metavar="LENGTH", help="30d (default), 12h, never")
        create.add_argument("--private-key", type=Path, metavar="FILE", help="sign with this RSA or EC key")
        actions.add_parser("list", help="list the tokens that were made here, and all that were revoked")
        revoke = actions.add_parser("revoke", help="refuse a token from now on, and close its connections")
        revoke.add_argument("id", help="the token's id (its claim jti), as `token list` shows it")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["action"] == "create":
            self._create(options["role"], options["expires"], options["private_key"])
        elif options["action"] == "revoke":
            is_ours = access.revoke_token(options["id"], who=caller(), origin=_ORIGIN)
            doubt = "" if is_ours else ", but no token with this id was made here: check the id"
            self.stdout.write(f"token {options['id']} is revoked{doubt}")
        else:
            for each in access.tokens():
                self.stdout.write(_line(each))

    def _create(self, role: str, expires: str, private_key: Path | None) -> None:
        try:
            created = access.create_token(
                broker_settings(),
                role,
                lifetime_ms=None if expires == NEVER else read_length_ms(expires),
                who=caller(),
                origin=_ORIGIN,
                private_key=None if private_key is None else _read_key(private_key),
            )
        except (access.NoSigningKey, NotAllowed, SettingInvalid, InvalidQuantity) as error:
            raise CommandError(str(error)) from None
        end = "never expires" if created.expires_at is None else f"expires {_time(created.expires_at)}"
        self.stderr.write(f"token {created.id} of {role} {end}; copy it now: it is not shown again")
        self.stdout.write(created.token)


def _read_key(path: Path) -> TokenKey:
    try:
        key = asymmetric_key(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    except TokenKeyInvalid as error:
        raise CommandError(f"{path} has no private key: {error}") from None
    if not key.can_sign:
        raise CommandError(f"{path} has no private key: it is a public key")
    return key


def _line(token: AccessToken) -> str:
    parts = [token.id, token.role or "(made elsewhere)"]
    if token.created_by:
        parts.append(f"made {_time(token.created_at)} by {token.created_by}")
    if token.expires_at is not None:
        parts.append(f"expires {_time(token.expires_at)}")
    elif token.role:
        parts.append("never expires")
    if token.revoked_at is not None:
        parts.append(f"revoked {_time(token.revoked_at)} by {token.revoked_by}")
    return "  ".join(parts)


def _time(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"
