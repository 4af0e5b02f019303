"""A client that reads /metrics again and again like Prometheus, in a separate process.

`python -m bench.load.scraper URL` reads until its input ends. Then it prints how often it read the page, how large
the page was and how long reading it took.
"""

from __future__ import annotations

import select
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["scraping"]

_REST_S = 1.0  # between two pages; Prometheus itself asks every 15 s or less often
_PATIENCE_S = 30.0


def main() -> None:
    """Read the page until standard input ends, then print the report."""
    (url,) = sys.argv[1:]
    took_s: list[float] = []
    size_bytes = 0
    print("scraping", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=_PATIENCE_S) as page:
            size_bytes = len(page.read())
        took_s.append(time.perf_counter() - began)
        select.select([sys.stdin], [], [], _REST_S)
    print(
        f"{len(took_s)} pages of {size_bytes / 1e6:.1f} MB, median {statistics.median(took_s or [0]):.2f} s"
    )


@contextmanager
def scraping(http_port: int) -> Iterator[list[str]]:
    """Read /metrics while the block runs. The list that it yields gets the report at the end."""
    report: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "bench.load.scraper", f"http://127.0.0.1:{http_port}/metrics"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield report
        finally:
            said, _ = process.communicate(timeout=2 * _PATIENCE_S)
    if process.returncode:
        raise AssertionError(f"/metrics could not be read: {said}")
    report.append(said.strip())


if __name__ == "__main__":
    main()
