"""Begin and complete a login at the OpenID Connect server."""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from broker.login_settings import LoginSettings
from console.oidc.errors import LoginRefused, ServerAway
from console.oidc.id_token import claims_of
from console.oidc.server import LoginServer, login_server, request

__all__ = ["Arrival", "come_back", "way_there"]

LASTS_S: Final = 600

_KEY: Final = "oidc_logins"
_MOST: Final = 5  # Unfinished logins that one session keeps

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A user who came back from the login server."""

    claims: dict[str, Any]
    next_page: str  # If this is empty, the overview opens


def way_there(asked: HttpRequest, settings: LoginSettings, *, back: str, next_page: str) -> str:
    """Begin a login and return the login server's URL for the browser.

    Raises ServerAway if the server gives no usable discovery document.
    """
    server = login_server(settings.oidc_issuer)
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    begun = {key: kept for key, kept in asked.session.get(_KEY, {}).items() if time.time() < kept["until_s"]}
    latest = dict(list(begun.items())[1 - _MOST :])
    latest[state] = {
        "nonce": nonce,
        "verifier": verifier,
        "next": next_page,
        "until_s": time.time() + LASTS_S,
    }
    asked.session[_KEY] = latest
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urlencode(
        {
            "response_type": "code",
            "client_id": settings.oidc_client_id,
            "redirect_uri": back,
            "scope": settings.oidc_scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
    )
    return f"{server.authorization_endpoint}{'&' if '?' in server.authorization_endpoint else '?'}{query}"


def come_back(asked: HttpRequest, settings: LoginSettings, *, back: str) -> Arrival:
    """Complete a login and return the user's claims.

    Raises LoginRefused if the login is unknown, too old or refused, or if a check of the answer fails.
    Raises ServerAway if the server gives no usable answer, or if VELA_OIDC_CLIENT_SECRET_FILE cannot be read.
    """
    begun = asked.session.get(_KEY, {})
    kept = begun.pop(asked.GET.get("state", ""), None)
    asked.session[_KEY] = begun
    if kept is None or time.time() > kept["until_s"]:
        raise LoginRefused(
            gettext_lazy("This login did not begin here, or it began too long ago. Begin again.")
        )
    server = login_server(settings.oidc_issuer)
    if asked.GET.get("iss", server.issuer) != server.issuer:
        raise LoginRefused(gettext_lazy("This answer comes from another login server."))
    if refusal := asked.GET.get("error"):
        log.info("the login server refused a login: %.200r", refusal)
        raise LoginRefused(
            format_lazy(
                gettext_lazy("The login server did not log you in. It says: {error}"), error=refusal[:200]
            )
        )
    token = _token(server, settings, asked.GET.get("code", ""), verifier=kept["verifier"], back=back)
    id_token = token.get("id_token")
    if not isinstance(id_token, str):
        raise LoginRefused(gettext_lazy("The login server sent no id token."))
    claims = claims_of(id_token, server, client_id=settings.oidc_client_id, nonce=kept["nonce"])
    # The name of the groups claim may be a dotted path, or a URL with dots.
    groups_claim = settings.oidc_groups_claim
    if groups_claim not in claims and groups_claim.partition(".")[0] not in claims:
        claims = {**_userinfo(server, token.get("access_token"), claims["sub"]), **claims}
    return Arrival(claims=claims, next_page=kept["next"])


def _token(
    server: LoginServer, settings: LoginSettings, code: str, *, verifier: str, back: str
) -> dict[str, Any]:
    secret = _secret(settings)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
    how: dict[str, Any] = {}
    if server.takes_basic:
        how["auth"] = (quote(settings.oidc_client_id, safe=""), quote(secret, safe=""))
    else:
        form |= {"client_id": settings.oidc_client_id, "client_secret": secret}
    answer = request("POST", server.token_endpoint, data=form, headers={"Accept": "application/json"}, **how)
    try:
        token = answer.json()
    except ValueError:
        token = None
    if not isinstance(token, dict):
        raise ServerAway(f"{server.token_endpoint} answered {answer.status_code}, but not with a JSON object")
    if answer.status_code != 200:
        log.warning("the login server gave no token: %s, %.200r", answer.status_code, token.get("error"))
        raise LoginRefused(gettext_lazy("The login server did not accept this login. Begin again."))
    return token


def _secret(settings: LoginSettings) -> str:
    file = settings.oidc_client_secret_file
    if file is None:
        return settings.oidc_client_secret
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ServerAway(f"VELA_OIDC_CLIENT_SECRET_FILE cannot be read: {error}") from error


def _userinfo(server: LoginServer, access_token: object, subject: str) -> dict[str, Any]:
    if not server.userinfo_endpoint or not isinstance(access_token, str):
        return {}
    answer = request("GET", server.userinfo_endpoint, headers={"Authorization": f"Bearer {access_token}"})
    try:
        said = answer.json() if answer.status_code == 200 else None
    except ValueError:
        said = None
    is_same = isinstance(said, dict) and constant_time_compare(str(said.get("sub")), subject)
    return said if isinstance(said, dict) and is_same else {}
