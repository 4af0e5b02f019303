"""Two browsers: Chromium, and a simple one that has cookies and one connection, and runs no scripts."""

from __future__ import annotations

import http.client
import shutil
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie

from playwright.sync_api import Page, sync_playwright

__all__ = ["ADMIN", "Browser", "opened"]

ADMIN = "admin"


class Browser:
    """One user's requests over one connection. A status of 400 or more ends the program with a message."""

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


@contextmanager
def opened(console_url: str, password: str, path: str) -> Iterator[Page]:
    """Keep one page open in Chromium, logged in as `ADMIN`. The page's script reads what changes.

    Playwright does not run in a thread that runs an event loop.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(base_url=console_url)
        page.goto(f"/login?next={urllib.parse.quote(path)}")
        page.fill("input[name=username]", ADMIN)
        page.fill("input[name=password]", password)
        page.press("input[name=password]", "Enter")
        page.wait_for_selector("[sse-connect]", state="attached")
        yield page
        browser.close()
