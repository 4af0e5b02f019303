"""Which hosts the broker's HTTP port answers to, and which web pages may ask it, on every door of that port."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest

from broker.conf import BrokerSettings
from broker.doors.http.application import application
from broker.doors.http.daphne_server import DaphneServer
from broker.doors.pull.answers import PullAnswers
from tests.unit.doors.daphne_thread import DaphneThread
from tests.unit.doors.fake_broker import FakeBroker

UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)
DOORS = {  # the request line and the fields, and the status for a caller that may ask
    "healthz": (("GET /healthz",), 200),
    "readyz": (("GET /readyz",), 200),
    "metrics": (("GET /metrics",), 200),
    "nothing": (("GET /",), 404),
    "pull": (("GET /pull/v1/public/default/absent?offset=0",), 404),
    "pull through ASGI": (("GET /pull/v1/public/default/absent?offset=0", "Connection: close"), 404),
    "queues": (("GET /pull/v1-queues/public/default/absent",), 404),
    "commit": (("PUT /pull/v1-offset/public/default/absent?subscription=g&offset=1",), 404),
    "ping": (("GET /ws/pingpong", *UPGRADE), 101),
    "producer": (("GET /ws/v2/producer/persistent/public/default/orders", *UPGRADE), 101),
    "binary": (("GET /ws/binary", *UPGRADE), 101),
}


@pytest.fixture(scope="module")
def server(daphne: DaphneThread) -> Iterator[DaphneServer]:
    """A server that listens on every address, as in a container."""

    async def start() -> DaphneServer:
        broker = FakeBroker()
        broker.settings = BrokerSettings.from_environment(
            {
                "VELA_BIND": "0.0.0.0",
                "VELA_ADVERTISED_URL": "pulsar+ssl://Pulsar.example.org:6651",
                "VELA_ALLOWED_HOSTS": "vela.example.org, .shop.example.org",
                "VELA_ALLOWED_ORIGINS": "https://vela.example.org, http://shop.example.org:3000/",
            }
        )
        pulls = PullAnswers(broker)
        made = DaphneServer(
            application(broker, pulls), pulls, settings=broker.settings, limits=broker.connections
        )
        made.listen("0.0.0.0", 0)
        return made

    made = daphne.call(start)
    yield made
    daphne.call(made.stop)


def answer(
    server: DaphneServer,
    door: str,
    *fields: str,
    version: str = "1.1",
    to: str = "127.0.0.1",
    target: str = "",
) -> tuple[int, str]:
    """Send a door's request, and return the status and the reason of a refusal. PORT in a field means the port.

    `target` is what the request's target has before the path, such as http://localhost.
    """
    line, *own = DOORS[door][0]
    line = line.replace(" /", f" {target}/", 1)
    lines = [f"{line} HTTP/{version}", *own, *(each.replace("PORT", str(server.port)) for each in fields)]
    with socket.create_connection((to, server.port), timeout=10) as peer:
        peer.sendall("".join(f"{each}\r\n" for each in (*lines, "")).encode("latin-1"))
        with peer.makefile("rb") as stream:
            status = int(stream.readline().split()[1])
            length = 0
            while (head := stream.readline().strip().lower()) != b"":
                if head.startswith(b"content-length:"):
                    length = int(head.split(b":")[1])
            body = stream.read(length)
    return status, json.loads(body)["reason"] if body.startswith(b'{"reason"') else ""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "fields",
    [
        ("Host: localhost:PORT",),
        ("Host: 127.0.0.1:PORT",),
        ("host:[::1]",),
        ("Host: LOCALHOST.",),
        ("Host: vela.example.org",),
        ("Host: a.b.shop.example.org:9",),
        ("Host: shop.example.org",),
        ("Host: pulsar.example.org:8080",),
        ("Host: localhost:PORT", "Origin: http://localhost:PORT"),
        ("Host: localhost", "Origin: http://localhost"),
        ("Host: localhost", "Origin: http://LocalHost:80"),
        ("Host: localhost:PORT", "Origin: https://vela.example.org"),
        ("Host: localhost:PORT", "Origin: https://vela.example.org:443", "Sec-Fetch-Site: cross-site"),
        ("Host: localhost:PORT", "Origin: http://shop.example.org:3000"),
        ("Host: localhost:PORT", "Sec-Fetch-Site: same-origin"),
        ("Host: localhost:PORT", "Sec-Fetch-Site: none"),
    ],
    ids=" ".join,
)
async def test_callers_that_may_ask_are_answered(
    server: DaphneServer, door: str, fields: tuple[str, ...]
) -> None:
    assert (await asyncio.to_thread(answer, server, door, *fields))[0] == DOORS[door][1]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1.evil.example:PORT",
        "localhost.evil.example",
        "xvela.example.org",
        "evilshop.example.org",
        "192.0.2.1:PORT",
        "127.0.0.1@evil.example",
        "evil.example, localhost",
        "",
        ".",
        "a." * 200 + "shop.example.org",
    ],
)
async def test_another_host_is_refused_with_the_setting_to_change(
    server: DaphneServer, door: str, host: str
) -> None:
    status, reason = await asyncio.to_thread(answer, server, door, f"Host: {host}")
    assert (status, "VELA_ALLOWED_HOSTS" in reason) == (421, True)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "fields",
    [
        ("Origin: https://evil.example",),
        ("Origin: null",),
        ("Origin: http://localhost:1",),
        ("Origin: http://localhost",),
        ("Origin: https://localhost:PORT",),
        ("Origin: http://127.0.0.1:PORT",),
        ("Origin: http://vela.example.org",),
        ("Origin: https://shop.example.org:3000",),
        ("Sec-Fetch-Site: cross-site",),
        ("Sec-Fetch-Site: same-site",),
        ("sec-fetch-site:cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"),
        ("Origin: null", "Sec-Fetch-Site: same-origin"),
    ],
    ids=" ".join,
)
async def test_pages_of_another_origin_are_refused_with_the_setting_to_change(
    server: DaphneServer, door: str, fields: tuple[str, ...]
) -> None:
    status, reason = await asyncio.to_thread(answer, server, door, "Host: localhost:PORT", *fields)
    assert (status, "VELA_ALLOWED_ORIGINS" in reason) == (403, True)


@pytest.mark.parametrize("door", ["healthz", "pull", "commit", "ping"])
async def test_an_empty_host_does_not_admit_the_null_origin(server: DaphneServer, door: str) -> None:
    assert (await asyncio.to_thread(answer, server, door, "Host:", "Origin: null"))[0] == 421


@pytest.mark.parametrize("door", ["healthz", "pull"])
async def test_a_host_is_named_once_and_only_http_1_0_may_leave_it_out(
    server: DaphneServer, door: str
) -> None:
    for fields, version, status in (
        ((), "1.0", DOORS[door][1]),
        (("Origin: https://evil.example",), "1.0", 403),
        (("Sec-Fetch-Site: cross-site",), "1.0", 403),
        ((), "1.1", 400),
        (("Host: localhost", "Host: localhost"), "1.1", 400),
        (("Host: localhost", "Host: evil.example"), "1.1", 400),
    ):
        assert (await asyncio.to_thread(answer, server, door, *fields, version=version))[0] == status
    twice = ("Host: localhost", "Host: localhost")
    assert (await asyncio.to_thread(answer, server, door, *twice, target="http://localhost"))[0] == 400


@pytest.mark.parametrize("door", DOORS)
async def test_the_address_that_a_connection_came_in_on_is_a_host_of_the_broker(
    server: DaphneServer, door: str
) -> None:
    """A probe that knows only the container's address sends such a request."""
    own = await asyncio.to_thread(answer, server, door, "Host: 127.0.0.2:PORT", to="127.0.0.2")
    other = await asyncio.to_thread(answer, server, door, "Host: 127.0.0.2:PORT", to="127.0.0.3")
    assert (own[0], other[0]) == (DOORS[door][1], 421)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://localhost", "localhost:PORT"),
        ("HTTPS://vela.example.org:443", "vela.example.org"),
        ("http://shop.example.org", "evil.example"),  # RFC 9112: ignore the header
    ],
)
async def test_the_host_of_a_target_may_be_one_of_the_brokers(
    server: DaphneServer, door: str, target: str, host: str
) -> None:
    """Clients send such a target to a proxy, and some proxies pass it on to the broker."""
    said = await asyncio.to_thread(answer, server, door, f"Host: {host}", target=target)
    assert said[0] == DOORS[door][1]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("target", "fields", "version", "status"),
    [
        ("http://evil.example", ("Host: localhost",), "1.1", 421),
        ("http://localhost@evil.example", ("Host: localhost",), "1.1", 421),
        ("http://", ("Host: localhost",), "1.1", 421),
        ("http://evil.example", ("Host: localhost",), "1.0", 421),
        ("http://evil.example", (), "1.0", 421),
        ("http://localhost", (), "1.1", 400),
        ("http://localhost", ("Host: localhost", "Origin: https://evil.example"), "1.1", 403),
    ],
)
async def test_the_host_of_a_target_is_no_way_around_the_gate(
    server: DaphneServer, door: str, target: str, fields: tuple[str, ...], version: str, status: int
) -> None:
    said = await asyncio.to_thread(answer, server, door, *fields, version=version, target=target)
    assert said[0] == status
