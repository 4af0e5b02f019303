"""Long-poll pull as a client sees it: plain HTTP against a running Vela."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until

HOLD_MS = 1500


@pytest.fixture(scope="module")
def wheel_less(vela_data: Path) -> Iterator[VelaProcess]:
    """A Vela whose timing wheel is off, so that only Celery's beat causes due answers."""
    with started_vela({"VELA_WHEEL": "0"}, data=vela_data) as process:
        yield process


def http_url(vela: VelaProcess) -> str:
    return vela.websocket_url.replace("ws://", "http://")


def request(vela: VelaProcess, path: str, method: str = "GET") -> dict[str, Any]:
    with urllib.request.urlopen(
        urllib.request.Request(http_url(vela) + path, method=method), timeout=30
    ) as answer:
        return dict(json.load(answer))


def refused(vela: VelaProcess, path: str, method: str = "GET") -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as error:
        request(vela, path, method)
    return error.value.code, json.load(error.value)["reason"]


def publish(vela: VelaProcess, topic: str, *payloads: bytes, tag: str | None = None) -> None:
    with connect(f"{vela.websocket_url}/ws/v2/producer/persistent/public/default/{topic}") as producer:
        for payload in payloads:
            message: dict[str, Any] = {"payload": base64.b64encode(payload).decode()}
            if tag is not None:
                message["properties"] = {"TAGS": tag}
            producer.send(json.dumps(message))
            assert json.loads(producer.recv(timeout=20))["result"] == "ok"


def held_now(vela: VelaProcess) -> int:
    with urllib.request.urlopen(f"{http_url(vela)}/metrics", timeout=20) as page:
        (line,) = [each for each in page.read().decode().splitlines() if each.startswith("vela_pulls_held ")]
    return int(float(line.split()[1]))


def payloads(answer: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(each["payload"]) for each in answer["messages"]]


def test_a_group_pulls_commits_and_continues_from_its_offset(wheel_less: VelaProcess) -> None:
    vela = wheel_less
    publish(vela, "orders", b"a", b"b", b"c")
    first = request(vela, "/pull/v1/public/default/orders?offset=0&max_messages=2")
    assert (first["code"], payloads(first), first["next_begin_offset"]) == ("SUCCESS", [b"a", b"b"], 2)
    commit = "/pull/v1-offset/public/default/orders?subscription=g"
    assert refused(vela, commit)[0] == 404
    assert request(vela, f"{commit}&offset=2", "PUT") == {"offset": 2}
    assert request(vela, commit) == {"offset": 2}
    rest = request(vela, "/pull/v1/public/default/orders?offset=2")
    assert payloads(rest) == [b"c"]
    assert request(vela, "/pull/v1/public/default/orders?offset=3")["code"] == "PULL_NOT_FOUND"
    assert request(vela, "/pull/v1/public/default/orders?offset=9")["code"] == "PULL_OFFSET_MOVED"


def test_a_get_moves_no_offset(wheel_less: VelaProcess) -> None:
    vela = wheel_less
    publish(vela, "unmoved", b"a", b"b")
    offset = "/pull/v1-offset/public/default/unmoved?subscription=g"
    commit = "/pull/v1/public/default/unmoved?offset=0&subscription=g&commit_offset=2"
    status, said = refused(vela, commit)
    assert (status, refused(vela, offset)[0]) == (400, 404)
    assert "PUT /pull/v1-offset/" in said
    assert refused(vela, f"{offset}&offset=2")[0] == 400
    assert request(vela, f"{offset}&offset=1", "PUT") == {"offset": 1}
    refused(vela, commit)
    assert request(vela, offset) == {"offset": 1}


def test_a_web_page_of_another_origin_is_refused_at_every_door(wheel_less: VelaProcess) -> None:
    vela = wheel_less
    publish(vela, "guarded", b"a")
    offset = "/pull/v1-offset/public/default/guarded?subscription=g"
    doors = (
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/pull/v1/public/default/guarded?offset=0"),
        ("PUT", f"{offset}&offset=1"),
        ("POST", f"{offset}&offset=1"),
    )
    for fields, status in (
        ({"Host": "rebound.example:8080"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        for method, path in doors:
            asked = urllib.request.Request(http_url(vela) + path, method=method, headers=fields)
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(asked, timeout=30)
            with error.value as answer:
                assert answer.code == status
        with pytest.raises(InvalidStatus) as refused_handshake:
            connect(
                f"{vela.websocket_url}/ws/v2/consumer/persistent/public/default/guarded/g",
                additional_headers=fields,
            )
        assert refused_handshake.value.response.status_code in (status, 400)  # 400: two hosts
    assert refused(vela, offset)[0] == 404


@pytest.mark.row("S3.16")
def test_a_parked_pull_is_answered_when_a_message_arrives(wheel_less: VelaProcess) -> None:
    """With the wheel off and a hold of one minute, only the arrival of the message can answer the pull so soon."""
    vela = wheel_less
    publish(vela, "wake", b"before")
    answers: list[dict[str, Any]] = []
    path = "/pull/v1/public/default/wake?offset=1&suspend=true&suspend_timeout_ms=60000&tags=A"
    waiter = threading.Thread(target=lambda: answers.append(request(vela, path)))
    waiter.start()
    wait_until(lambda: held_now(vela) == 1, "the pull to be held", timeout_s=20)
    publish(vela, "wake", b"other", tag="B")
    assert not answers
    publish(vela, "wake", b"mine", tag="A")
    waiter.join(4)
    (answer,) = answers
    if not answer["messages"]:  # the broker's check of all queues, every 5 s, fell between the two publishes
        answer = request(vela, path.replace("offset=1", f"offset={answer['next_begin_offset']}"))
    assert payloads(answer) == [b"mine"]
    assert answer["messages"][0]["tag"] == "A"


@pytest.mark.row("S3.12")
def test_beat_alone_answers_when_the_time_is_over(wheel_less: VelaProcess) -> None:
    vela = wheel_less
    publish(vela, "quiet", b"x")
    began_s = time.monotonic()
    answer = request(
        vela, f"/pull/v1/public/default/quiet?offset=1&suspend=true&suspend_timeout_ms={HOLD_MS}"
    )
    waited_s = time.monotonic() - began_s
    assert answer["code"] == "PULL_NOT_FOUND"
    assert waited_s >= HOLD_MS / 1000


@pytest.mark.row("S3.14")
def test_a_client_that_leaves_while_parked_is_forgotten(wheel_less: VelaProcess) -> None:
    vela = wheel_less
    publish(vela, "left", b"x")
    host, port = http_url(vela).removeprefix("http://").split(":")
    peers = [socket.create_connection((host, int(port)), timeout=20) for _ in range(20)]
    for peer in peers:
        peer.sendall(
            b"GET /pull/v1/public/default/left?offset=1&suspend=true&suspend_timeout_ms=60000 HTTP/1.1\r\n"
            b"Host: 127.0.0.1\r\n\r\n"
        )
    wait_until(lambda: held_now(vela) == 20, "20 held pulls", timeout_s=20)
    for peer in peers:
        peer.close()
    wait_until(lambda: held_now(vela) == 0, "held pulls of peers that left to go", timeout_s=20)
    publish(vela, "left", b"y")
    assert payloads(request(vela, "/pull/v1/public/default/left?offset=1")) == [b"y"]


@pytest.mark.parametrize(
    ("path", "method", "status", "said"),
    [
        ("/pull/v1/public/default/nosuch?offset=0", "GET", 404, "does not exist"),
        ("/pull/v1/public/default/orders?offset=0&queue=1", "GET", 404, "no queue 1"),
        ("/pull/v1/public/default/orders", "GET", 400, "offset"),
        ("/pull/v1/public/default/orders?offset=-1", "GET", 400, "offset"),
        ("/pull/v1/public/default?offset=0", "GET", 400, "path"),
        ("/pull/v1/public/default/orders?offset=0&filter=a%20like%20b", "GET", 400, "filter"),
        ("/pull/v1/public/default/orders?offset=0", "POST", 405, "GET"),
        ("/pull/v1-offset/public/default/orders?subscription=g&offset=x", "PUT", 400, "offset"),
        ("/pull/v1-offset/public/default/orders?subscription=%20g&offset=1", "PUT", 400, "spaces"),
        ("/pull/v2/public/default/orders?offset=0", "GET", 400, "path"),
    ],
)
def test_bad_input_is_named(wheel_less: VelaProcess, path: str, method: str, status: int, said: str) -> None:
    publish(wheel_less, "orders", b"z")
    found = refused(wheel_less, path, method)
    assert found[0] == status
    assert said in found[1]
