"""Lookups and refused requests create nothing, and every door refuses illegal names."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.broker_harness import rows
from tests.support.raw_pulsar import RawPulsar
from tests.support.vela import ADMIN_PASSWORD, VelaProcess
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, SubType, TopicsMode

BAD_NAMES = [
    "persistent://../../x",
    "persistent://shop/.../x",
    "persistent://sh op/eu/x",
    "persistent://shop/é/x",
]


def known_tenants(vela: VelaProcess) -> set[str]:
    return {name for (name,) in rows(vela.database_url, "SELECT name FROM vela_tenant")}


def topics_of_tenant(vela: VelaProcess, tenant: str) -> list[str]:
    found = rows(vela.database_url, "SELECT name FROM vela_topic WHERE name LIKE %s", f"%://{tenant}/%")
    return sorted(name for (name,) in found)


def read(vela: VelaProcess, path: str) -> tuple[int, str]:
    """Return the status and the body of a GET under /api/v1."""
    request = urllib.request.Request(f"{vela.console_url}/api/v1/{path}")
    who = base64.b64encode(f"admin:{ADMIN_PASSWORD}".encode()).decode()
    request.add_header("Authorization", f"Basic {who}")
    return _answer(request)


def _answer(request: urllib.request.Request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_lookups_and_refused_requests_make_no_tenant(shared_vela: VelaProcess) -> None:
    tenant = f"asked-only-{secrets.token_hex(4)}"
    topic = f"persistent://{tenant}/eu/orders"
    with RawPulsar(shared_vela.pulsar_url) as peer:
        answer = peer.ask("PARTITIONED_METADATA_RESPONSE", commands.partition_metadata(topic, request_id=1))
        assert answer.partitionMetadataResponse.partitions == 0
        assert not answer.partitionMetadataResponse.HasField("error")
        peer.ask("LOOKUP_RESPONSE", commands.lookup(topic, request_id=2))
        asked = commands.get_topics_of_namespace(f"{tenant}/eu", request_id=3, mode=TopicsMode.ALL)
        assert not peer.ask("GET_TOPICS_OF_NAMESPACE_RESPONSE", asked).getTopicsOfNamespaceResponse.topics
        reserved = commands.subscribe(topic, " s", type=SubType.SHARED, consumer_id=1, request_id=4)
        assert ServerError(peer.ask("ERROR", reserved).error.error) == ServerError.NOT_ALLOWED_ERROR
        unmade = commands.subscribe(
            topic, "s", type=SubType.SHARED, consumer_id=1, request_id=5, create_topic=False
        )
        assert ServerError(peer.ask("ERROR", unmade).error.error) == ServerError.TOPIC_NOT_FOUND
        unprintable = commands.producer(topic, producer_id=1, request_id=6, name="a\nb")
        assert ServerError(peer.ask("ERROR", unprintable).error.error) == ServerError.NOT_ALLOWED_ERROR
    for path in ("", "/stats", "/subscriptions/s"):
        assert read(shared_vela, f"topics/persistent/{tenant}/eu/orders{path}")[0] == 404
    pull = urllib.request.Request(f"{shared_vela.http_url}/pull/v1-queues/{tenant}/eu/orders")
    assert _answer(pull)[0] == 404
    assert tenant not in known_tenants(shared_vela)
    with RawPulsar(shared_vela.pulsar_url) as peer:
        peer.open_producer(topic)
    assert topics_of_tenant(shared_vela, tenant) == [topic]


@pytest.mark.parametrize("topic", BAD_NAMES)
def test_an_invalid_name_is_refused_on_each_door(shared_vela: VelaProcess, topic: str) -> None:
    before = known_tenants(shared_vela)
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    path = "/".join(quote(part, safe="") for part in [*namespace.split("/"), "x"])
    with RawPulsar(shared_vela.pulsar_url) as peer:
        refusals = [
            peer.ask("ERROR", commands.producer(topic, producer_id=1, request_id=1)).error,
            peer.ask(
                "ERROR", commands.subscribe(topic, "s", type=SubType.SHARED, consumer_id=1, request_id=2)
            ).error,
            peer.ask("ERROR", commands.get_topics_of_namespace(namespace, request_id=3)).error,
        ]
        answers = [(each.error, each.message) for each in refusals]
        metadata = peer.ask("PARTITIONED_METADATA_RESPONSE", commands.partition_metadata(topic, request_id=4))
        found = metadata.partitionMetadataResponse
        lookup = peer.ask("LOOKUP_RESPONSE", commands.lookup(topic, request_id=5)).lookupTopicResponse
        answers += [(found.error, found.message), (lookup.error, lookup.message)]
    for error, message in answers:
        assert (ServerError(error), "may have letters" in message) == (ServerError.INVALID_TOPIC_NAME, True)
    for door in (f"/ws/v2/producer/persistent/{path}", f"/ws/v2/consumer/persistent/{path}/s"):
        with pytest.raises(InvalidStatus) as refused, connect(f"{shared_vela.websocket_url}{door}"):
            pass
        assert refused.value.response.status_code == 400
    status, says = _answer(urllib.request.Request(f"{shared_vela.http_url}/pull/v1-queues/{path}"))
    assert (status, "may have letters" in says) == (400, True)
    escaped = "/".join(part.replace(".", "~2E") for part in path.split("/"))
    status, says = read(shared_vela, f"topics/persistent/{escaped}")
    assert (status, json.loads(says)["code"]) == (400, "InvalidTopicName")
    assert known_tenants(shared_vela) == before


def test_a_tenant_that_is_too_long_is_refused_on_each_door(shared_vela: VelaProcess) -> None:
    path = f"{'t' * 256}/eu/x"
    with RawPulsar(shared_vela.pulsar_url) as peer:
        refusal = peer.ask(
            "ERROR", commands.producer(f"persistent://{path}", producer_id=1, request_id=1)
        ).error
    assert ServerError(refusal.error) == ServerError.INVALID_TOPIC_NAME
    for door in (f"producer/persistent/{path}", f"consumer/persistent/{path}/s"):
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(f"{shared_vela.websocket_url}/ws/v2/{door}"),
        ):
            pass
        assert refused.value.response.status_code == 400
    status, says = _answer(urllib.request.Request(f"{shared_vela.http_url}/pull/v1-queues/{path}"))
    assert (status, "at most 255" in says) == (400, True)
    status, says = read(shared_vela, f"topics/persistent/{path}")
    assert (status, json.loads(says)["code"]) == (400, "InvalidTopicName")


def test_the_command_line_refuses_invalid_names_before_any_request(shared_vela: VelaProcess) -> None:
    for line in (["produce", "persistent://../../x", "m"], ["topics", "create", "../../x", "--yes"]):
        done = subprocess.run(
            [sys.executable, "-m", "vela.cli", *line], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, "not only dots" in done.stderr) == (2, True), done.stderr
    with pytest.raises(AssertionError, match="not only dots"):
        shared_vela.manage("createtopic", "persistent://../../x")
    with pytest.raises(AssertionError, match="not only dots"):
        shared_vela.manage("setpolicy", "../..", "max_consumers=1", "--yes")
