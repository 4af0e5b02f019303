"""Hostile requests, byte by byte, to both HTTP ports of a started Vela: a clear answer, and no traceback in a log."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from tests.support.vela import VelaProcess

TOPIC = "persistent/public/default/orders"
BROKER = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/nothing",
    f"/pull/v1/{TOPIC}",
    f"/pull/v1-offset/{TOPIC}",
    f"/pull/v1-queues/{TOPIC}",
    f"/ws/v2/producer/{TOPIC}",
    f"/ws/v2/consumer/{TOPIC}/s",
    f"/ws/v2/reader/{TOPIC}",
    "/ws/binary",
    "/admin/v2/tenants",
    f"/admin/v2/{TOPIC}/stats",
    f"/admin/v2/{TOPIC}/subscription/s/position/1",
    f"/lookup/v2/topic/{TOPIC}",
]
CONSOLE = [
    "/",
    "/login",
    "/topics",
    "/acts",
    "/live",
    "/theme",
    "/api/v1/stats",
    "/static/x",
    "/django-admin/",
]
VALUES = [
    "%00",
    "%FF%FE",
    "%ED%A0%80",
    "%zz%",
    "9" * 40,
    "9223372036854775808",
    "-1",
    "inf",
    "%D9%A3",
    "x" * 10_000,
    "%01%1B%7F%C2%85%0D%0A",
    "%E2%80%AEabc",
    "%3Cscript%3E",
    "..%2F..",
    "%5C%25_'",
]
NAMES = [
    "queue",
    "offset",
    "max_messages",
    "tags",
    "filter",
    "suspend",
    "suspend_timeout_ms",
    "subscription",
    "x",
]
HOSTS = [
    b"[",
    b"[::1",
    b"a b",
    b"%00",
    b"x" * 10_000,
    b"127.0.0.1:abc",
    b"[::1]:80:90",
    b"\xff",
    b"",
    b"a,b",
    b"@",
]
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.fixture
def calm(shared_vela: VelaProcess) -> Iterator[VelaProcess]:
    """The shared Vela. The test fails at its end if the broker or the console logged a traceback."""
    logs = [shared_vela.data_dir / "log" / name for name in ("broker.log", "console.log")]
    before = {log: log.stat().st_size for log in logs}
    yield shared_vela
    for log in logs:
        said = log.read_bytes()[before[log] :].decode(errors="replace")
        assert "Traceback" not in said, said[-3000:]


def status(
    vela: VelaProcess,
    port: str,
    target: str | bytes,
    *,
    host: bytes = b"localhost",
    fields: bytes = b"",
    method: bytes = b"GET",
) -> int:
    """Return the status of one request on a new connection, or 0 if the server closed it without an answer."""
    path = target.encode("latin-1") if isinstance(target, str) else target
    with socket.create_connection(("127.0.0.1", int(vela.environment[port])), timeout=30) as peer:
        peer.sendall(method + b" " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + fields + b"\r\n")
        response = http.client.HTTPResponse(peer)
        try:
            response.begin()
        except (http.client.HTTPException, ConnectionError):
            return 0
        return response.status


@pytest.mark.parametrize("address", BROKER)
@pytest.mark.parametrize("fields", [b"", UPGRADE], ids=["http", "websocket"])
def test_hostile_parameters_cause_no_fault_in_the_broker(
    address: str, fields: bytes, calm: VelaProcess
) -> None:
    # As in Pulsar, a refused reader always gets a 500 with the reason. A real fault would be in the log.
    faults = () if fields and "/reader/" in address else (500, 502)
    for value in VALUES:
        for name in NAMES:
            got = status(
                calm, "VELA_HTTP_PORT", f"{address}?suspend_timeout_ms=1&{name}={value}", fields=fields
            )
            assert got not in faults, f"{address}?{name}={value[:60]}"
        for place in range(address.count("/")):
            parts = address.split("/")
            parts[place + 1] = value
            got = status(calm, "VELA_HTTP_PORT", "/".join(parts), fields=fields)
            assert got not in faults, "/".join(parts)[:200]


@pytest.mark.parametrize(("port", "addresses"), [("VELA_HTTP_PORT", BROKER), ("VELA_CONSOLE_PORT", CONSOLE)])
@pytest.mark.parametrize(
    "fields", [b"", UPGRADE, UPGRADE + b"Origin: http://[\r\n"], ids=["http", "websocket", "origin"]
)
def test_hostile_hosts_cause_no_fault_on_either_port(
    port: str, addresses: list[str], fields: bytes, calm: VelaProcess
) -> None:
    for address in addresses:
        for host in HOSTS:
            assert status(calm, port, address, host=host, fields=fields) != 500, (address, host[:30])


@pytest.mark.parametrize("port", ["VELA_HTTP_PORT", "VELA_CONSOLE_PORT"])
def test_hostile_heads_cause_no_fault_on_either_port(port: str, calm: VelaProcess) -> None:
    targets = [
        b"/\xff",
        b"/%",
        b"/%00",
        b"/?\xff",
        b"//",
        b"http://[",
        b"*",
        b"/" + b"x" * 20_000,
        b"/\x01",
        b"x",
    ]
    for target in targets:
        assert status(calm, port, target) < 500, target[:30]
    for fields in (
        b"Content-Length: -1\r\n",
        b"Content-Length: " + b"9" * 5000 + b"\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b'Cookie: \xff=\xfe; sessionid="\\000"\r\n',
        b"X\x00: 1\r\n",
        b"X: " + b"1" * 20_000 + b"\r\n",
        b"X: 1\r\n" * 600,
        b"Authorization: Basic \xff\r\n",
        b"Accept-Language: " + b"x," * 4000 + b"\r\n",
    ):
        assert status(calm, port, "/topics", fields=fields) < 500, fields[:40]
    for method in (b"", b"\xff", b"TRACE", b"G" * 10_000):
        assert status(calm, port, "/topics", method=method) < 500, method[:20]


@pytest.mark.parametrize("port", ["VELA_HTTP_PORT", "VELA_CONSOLE_PORT"])
def test_a_large_body_is_refused_on_both_ports(port: str, calm: VelaProcess) -> None:
    assert status(calm, port, "/login", method=b"POST", fields=b"Content-Length: 900000000\r\n") == 413
