"""A program that calls the admin API at a fixed rate, in a separate process. Half of its calls read, half change.

`python -m bench.load.admin_caller PORT PER_S` calls until its input ends. Then it prints how many calls it made, how
long they took, and how late they began. A call may begin late, because it waits for the answer to the call before it.
"""

from __future__ import annotations

import http.client
import itertools
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figures import percentile

__all__ = ["calling"]

_PATIENCE_S = 30.0
_NAMESPACE = "persistent/public/default"
_TOPIC = f"{_NAMESPACE}/called"
_CALLS = (  # in this order, again and again
    ("PUT", f"/admin/v2/{_TOPIC}", b""),
    ("GET", f"/admin/v2/{_TOPIC}/stats", b""),
    ("PUT", f"/admin/v2/{_TOPIC}/subscription/s", b'"latest"'),
    ("GET", "/admin/v2/namespaces/public/default", b""),
    ("POST", f"/topics/{_TOPIC}", b'{"messages": [{"payload": "looked at"}]}'),
    ("GET", f"/admin/v2/{_TOPIC}/subscription/s/position/1", b""),
    ("POST", f"/admin/v2/{_TOPIC}/retention", b'{"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}'),
    ("GET", f"/admin/v2/{_TOPIC}/internalStats", b""),
    ("DELETE", f"/admin/v2/{_TOPIC}?force=true", b""),
    ("GET", f"/admin/v2/{_NAMESPACE}", b""),
)


def main() -> None:
    """Call until standard input ends, then print the report."""
    port, per_s = int(sys.argv[1]), float(sys.argv[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    print("calling", flush=True)
    took_ms: list[float] = []
    late_ms: list[float] = []
    began_s = time.perf_counter()
    for number, (method, path, body) in enumerate(itertools.cycle(_CALLS)):
        due_s = began_s + number / per_s
        is_asked_to_end = select.select([sys.stdin], [], [], max(0.0, due_s - time.perf_counter()))[0]
        if is_asked_to_end and number % len(_CALLS) == 0:
            break  # all calls of the list are made, so the topic that they create is deleted
        sent_s = time.perf_counter()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status not in (200, 204):
            raise SystemExit(f"{method} {path}: {answer.status} {said!r}")
        took_ms.append(1000 * (time.perf_counter() - sent_s))
        late_ms.append(1000 * (sent_s - due_s))
    rate = len(took_ms) / (time.perf_counter() - began_s)
    took = ", ".join(f"p{rank} {percentile(took_ms, rank):.0f} ms" for rank in (50, 99))
    print(f"{len(took_ms)} calls, {rate:.0f}/s, {took}, begun {percentile(late_ms, 50):.0f} ms late (p50)")


@contextmanager
def calling(http_port: int, *, per_s: float) -> Iterator[list[str]]:
    """Call the admin API while the block runs. The list that it yields gets the report at the end."""
    report: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "bench.load.admin_caller", str(http_port), str(per_s)],
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
        raise AssertionError("an admin call failed; its error is above")
    report.append(said.strip())


if __name__ == "__main__":
    main()
