"""A browser as the console sees one: cookies, one connection, no scripts."""

from __future__ import annotations

import http.client
import urllib.parse
from http.cookies import SimpleCookie

__all__ = ["ADMIN", "Browser"]

ADMIN = "admin"


class Browser:
    """One logged-in user with one kept connection. Any answer from 400 on ends the program with a message."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=10)
        self._address = address
        self._cookies: dict[str, str] = {}

    def get(self, path: str) -> bytes:
        """Return the page's bytes."""
        return self._request("GET", path, None)

    def log_in(self, password: str) -> None:
        """Log in as `ADMIN`."""
        self.get("/login")
        form = {
            "username": ADMIN,
            "password": password,
            "csrfmiddlewaretoken": self._cookies.get("csrftoken", ""),
        }
        self._request("POST", "/login", urllib.parse.urlencode(form))
        if "sessionid" not in self._cookies:
            raise SystemExit("the console refused the login")

    def _request(self, method: str, path: str, body: str | None) -> bytes:
        headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()),
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://{self._address}",
            "Accept": "text/html",
        }
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        content = response.read()
        for header in response.headers.get_all("Set-Cookie", []):
            self._cookies |= {name: morsel.value for name, morsel in SimpleCookie(header).items()}
        if response.status >= 400:
            raise SystemExit(f"{method} {path} answered {response.status}")
        return content
