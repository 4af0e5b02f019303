"""A logged-in user who reloads one console page again and again over one connection, like a browser.

`python -m bench.load.page_reloader HOST:PORT PASSWORD PATH` reloads until its input ends. Then it prints how often it
reloaded the page, and how long a reload took.
"""

from __future__ import annotations

import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.load.browser import Browser
from tests.support.vela import VelaProcess

__all__ = ["reloading"]

_EVERY_S = 0.1  # a reload begins when the last has ended, but no more than ten a second


def main() -> None:
    """Reload the page until standard input ends, then print the report."""
    address, password, path = sys.argv[1:]
    browser = Browser(address)
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
    """Reload a page in a separate process while the block runs. The list that it yields gets the report at the end."""
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
        process.stdout.readline()  # the process has logged in and loaded the page once, or has ended
        try:
            yield report
        finally:
            said, _ = process.communicate(timeout=15)
    if process.returncode:
        raise AssertionError(f"the page could not be reloaded: {said}")
    report.append(said.strip())


if __name__ == "__main__":
    main()
