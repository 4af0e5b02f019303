"""An OpenID Connect login server in a thread: discovery, keys, codes, signed tokens and userinfo."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

__all__ = ["LoginServer", "running_login_server"]

CLIENT_ID = "vela:console"
CLIENT_SECRET = "hush/ü%"


class LoginServer:
    """Answers as the test says. `person` holds the user's claims; `change` may spoil the claims of the token."""

    def __init__(self) -> None:
        self.issuer = ""
        self.person: dict[str, Any] = {"sub": "a1", "preferred_username": "ada"}
        self.userinfo: dict[str, Any] = {}
        self.change: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.discovery: dict[str, Any] = {}
        self.status = 200
        self.key: ECKey | RSAKey = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})
        self.signs_with: ECKey | RSAKey = self.key
        self.algorithm = "ES256"
        self.asked: list[str] = []
        self.services: dict[str, str] = {}  # client id to secret of programs that get tokens for themselves
        self.forms: list[dict[str, str]] = []  # the form of each request for such a token
        self.lifetime_s = 300
        self._codes: dict[str, dict[str, str]] = {}

    def use_key(self, key: ECKey | RSAKey, algorithm: str) -> None:
        """From now on, publish and sign with this key only."""
        self.key = self.signs_with = key
        self.algorithm = algorithm

    def access_token(self, claims: dict[str, Any], *, key_id: str | None) -> str:
        """Return a token with these claims. Its header names the key that signs it, or `key_id` if that is given."""
        header = {"alg": self.algorithm, "kid": key_id or self.signs_with.kid}
        full = {"iss": self.issuer, "exp": int(time.time()) + self.lifetime_s, **claims}
        return jwt.encode(header, full, self.signs_with, algorithms=[self.algorithm])

    def log_in(self, address: str) -> str:
        """Log in at the address to which the console redirects. Return the address to which the login redirects."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert "openid" in asked["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.issuer})}"

    def answer(self, method: str, path: str, headers: Any, body: str) -> tuple[int, Any]:
        """Answer one request with a status and a document."""
        self.asked.append(path)
        if self.status != 200:
            return self.status, {"error": "test"}
        if path == "/.well-known/openid-configuration":
            addresses = {
                f"{name}_endpoint": f"{self.issuer}/{name}" for name in ("authorization", "token", "userinfo")
            }
            return 200, {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                **addresses,
                **self.discovery,
            }
        if path == "/keys":
            return 200, KeySet([self.key]).as_dict(private=False)
        if path == "/userinfo" and headers["Authorization"] == "Bearer opaque":
            return 200, self.userinfo
        if path == "/token" and method == "POST":
            return self._token(headers, {name: values[0] for name, values in parse_qs(body).items()})
        return 404, {}

    def _token(self, headers: Any, form: dict[str, str]) -> tuple[int, Any]:
        sent = headers.get("Authorization")
        if sent is not None:
            name, _, secret = base64.b64decode(sent.removeprefix("Basic ")).decode().partition(":")
            client = (unquote(name), unquote(secret))
        else:
            client = (form.get("client_id", ""), form.get("client_secret", ""))
        if form.get("grant_type") == "client_credentials":
            return self._service_token(client, form)
        asked = self._codes.pop(form.get("code", ""), None)
        if client != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if challenge.rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.person,
        }
        if self.algorithm == "none":
            parts = ({"alg": "none", "kid": self.signs_with.kid}, self.change(claims))
            return 200, {"access_token": "opaque", "id_token": f"{'.'.join(map(_part, parts))}."}
        header = {"alg": self.algorithm, "kid": self.signs_with.kid}
        token = jwt.encode(header, self.change(claims), self.signs_with, algorithms=[self.algorithm])
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token}

    def _service_token(self, client: tuple[str, str], form: dict[str, str]) -> tuple[int, Any]:
        self.forms.append(form)
        if client[0] not in self.services or self.services[client[0]] != client[1]:
            return 401, {"error": "invalid_client", "error_description": "unknown client"}
        claims = {"sub": client[0], "aud": form.get("audience", ""), "scope": form.get("scope", "")}
        token = self.access_token(claims, key_id=None)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}


def _part(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


@contextmanager
def running_login_server() -> Iterator[LoginServer]:
    """Yield a server that listens on a port of this machine."""
    server = LoginServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            status, document = server.answer(self.command, urlsplit(self.path).path, self.headers, body)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 - the names that the standard library looks for

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        server.issuer = f"http://127.0.0.1:{listener.server_port}"
        thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()
