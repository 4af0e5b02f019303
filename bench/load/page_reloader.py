"""A logged-in user who reloads one console page again and again over one connection, like a browser.

`python -m bench.load.page_reloader HOST:PORT PASSWORD PATH` until its input ends; then prints how often and how long
it took.
"""

from __future__ import annotations

import http.client
import select
import statistics
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie

from tests.support.vela import VelaProcess

__all__ = ["ADMIN", "reloading"]

ADMIN = "admin"
_EVERY_S = 0.1  # a reload begins when the last has ended, but no more than ten a second


class _Browser:
    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=10)
        self._address = address
        self._cookies: dict[str, str] = {}

    def get(self, path: str) -> bytes:
        return self._request("GET", path, None)

    def log_in(self, password: str) -> None:
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


def main() -> None:
    """See the module."""
    address, password, path = sys.argv[1:]
    browser = _Browser(address)
    browser.log_in(password)
    browser.get(path)
    print("reloading", flush=True)
    took_ms: list[float] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.perf_counter()
        browser.get(path)
        took_s = time.perf_counter() - began
        took_ms.append(1000 * took_s)
        select.select([sys.stdin], [], [], max(0.0, _EVERY_S - took_s))
    print(f"{len(took_ms)} reloads, median {statistics.median(took_ms or [0]):.0f} ms")


@contextmanager
def reloading(vela: VelaProcess, path: str) -> Iterator[list[str]]:
    """Keep one page being reloaded in a process of its own; the list gets its report at the end."""
    address = vela.console_url.removeprefix("http://")
    report: list[str] = []
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "bench.load.page_reloader",
            address,
            vela.environment["VELA_ADMIN_PASSWORD"],
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # logged in and seen the page once, or ended
        try:
            yield report
        finally:
            said, _ = process.communicate(timeout=15)
    if process.returncode:
        raise AssertionError(f"the page could not be reloaded: {said}")
    report.append(said.strip())


if __name__ == "__main__":
    main()
