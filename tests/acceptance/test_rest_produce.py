"""Pulsar's REST produce, and what the admin API refuses, against a whole Vela."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from tests.acceptance.test_admin_rest import Admin
from tests.support.broker_harness import rows
from tests.support.vela import VelaProcess

PLACE = "/topics/persistent/public/default"


@pytest.fixture(scope="module")
def admin(shared_vela: VelaProcess) -> Admin:
    """The HTTP client."""
    return Admin(shared_vela.http_url)


@pytest.fixture(scope="module")
def apache(shared_vela: VelaProcess) -> Iterator[pulsar.Client]:
    """Apache's client."""
    client = pulsar.Client(
        shared_vela.pulsar_url,
        operation_timeout_seconds=10,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    return f"rest-{secrets.token_hex(4)}"


def produced(admin: Admin, path: str, *payloads: str, **given: Any) -> list[dict[str, Any]]:
    body = {"messages": [{"payload": each} for each in payloads], **given}
    answer = admin("POST", f"{PLACE}/{path}", body)
    assert answer.status == 200, answer
    results: list[dict[str, Any]] = answer.json["messagePublishResults"]
    return results


def received(apache: pulsar.Client, topic: str, count: int) -> list[pulsar.Message]:
    consumer = apache.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    found = [consumer.receive(10_000) for _ in range(count)]
    consumer.close()
    return found


def test_messages_of_a_request_reach_apaches_client(admin: Admin, apache: pulsar.Client, topic: str) -> None:
    body = {
        "producerName": "till",
        "messages": [
            {"payload": "größe", "key": "k", "properties": {"a": "b"}, "eventTime": "1700000000000"},
            {"payload": "", "context": "not used", "eventTime": "2026-03-01T14:30:00Z"},
        ],
    }
    answer = admin("POST", f"{PLACE}/{topic}", body)
    assert answer.status == 200
    ids = [each["messageId"] for each in answer.json["messagePublishResults"]]
    first, second = received(apache, topic, 2)
    assert [first.data().decode(), second.data()] == ["größe", b""]
    assert (first.partition_key(), first.properties(), first.event_timestamp()) == (
        "k",
        {"a": "b"},
        1_700_000_000_000,
    )
    assert first.producer_name() == "till"
    assert second.event_timestamp() == 1_772_375_400_000
    assert ids == [
        f"{each.message_id().ledger_id()}:{each.message_id().entry_id()}:-1" for each in (first, second)
    ]


def test_a_partition_is_chosen_by_key_or_by_path(admin: Admin, apache: pulsar.Client, topic: str) -> None:
    admin.done("PUT", f"persistent/public/default/{topic}/partitions", 3)
    (there,) = produced(admin, f"{topic}/partitions/2", "two")
    assert there["messageId"].endswith(":2")
    keyed = admin(
        "POST", f"{PLACE}/{topic}", {"messages": [{"payload": str(n), "key": "k"} for n in range(5)]}
    )
    assert len({each["messageId"].split(":")[2] for each in keyed.json["messagePublishResults"]}) == 1
    assert admin("POST", f"{PLACE}/{topic}/partitions/3", {"messages": [{"payload": ""}]}).status == 404
    whole = f"{topic}-partition-1/partitions/1"
    assert admin("POST", f"{PLACE}/{whole}", {"messages": [{"payload": ""}]}).status == 400


def test_a_schema_is_stored_and_then_applies(admin: Admin, topic: str) -> None:
    schema = '{"name": "n", "type": "INT32"}'
    (stored,) = produced(admin, topic, "7", valueSchema=schema)
    assert stored["schemaVersion"] == 0
    assert admin.get(f"schemas/public/default/{topic}/schema")["type"] == "INT32"
    refused = admin("POST", f"{PLACE}/{topic}", {"messages": [{"payload": "seven"}]})
    assert (refused.status, "INT32" in refused.reason) == (422, True)
    assert (
        admin("POST", f"{PLACE}/{topic}", {"schemaVersion": 5, "messages": [{"payload": "1"}]}).status == 404
    )


def test_each_message_has_its_own_result(admin: Admin, topic: str) -> None:
    admin.done("PUT", f"persistent/public/default/{topic}")
    admin.done("POST", f"persistent/public/default/{topic}/maxMessageSize", 5)
    good, bad = produced(admin, topic, "short", "too long")
    assert good["errorCode"] == 0
    assert (bad["errorCode"], "limit is 5" in bad["errorMsg"], "messageId" in bad) == (2, True, False)


def test_invalid_names_and_sequence_ids_are_refused(admin: Admin, apache: pulsar.Client, topic: str) -> None:
    producer = apache.create_producer(topic, producer_name="taken")
    taken = {"producerName": "taken", "messages": [{"payload": "x"}]}
    assert admin("POST", f"{PLACE}/{topic}", taken).status == 409
    producer.close()
    for ids in ([1, 1], [2, 1], [1, None]):
        messages = [{"payload": "x", "sequenceId": each} for each in ids]
        assert admin("POST", f"{PLACE}/{topic}", {"messages": messages}).status == 400
    assert admin("POST", f"persistent/public/default/{topic}/terminate").status == 200
    assert admin("POST", f"{PLACE}/{topic}", {"messages": [{"payload": "x"}]}).status == 412


def test_numbers_past_the_last_are_refused(admin: Admin, topic: str) -> None:
    admin.done("PUT", f"persistent/public/default/{topic}")
    admin.done("POST", f"persistent/public/default/{topic}/deduplicationEnabled", True)
    given = {"producerName": "p", "messages": [{"payload": "x", "sequenceId": 2**63 - 2}]}
    assert admin("POST", f"{PLACE}/{topic}", given).json["messagePublishResults"][0]["errorCode"] == 0
    last, refused = produced(admin, topic, "last", "one more", producerName="p")
    assert (last["errorCode"], refused["errorCode"]) == (0, 2)
    assert "last sequence id" in refused["errorMsg"]
    late = {"messages": [{"payload": "x", "deliverAfterMs": 2**63 - 1}]}
    assert admin("POST", f"{PLACE}/{topic}", late).status == 400


def test_a_non_persistent_topic_takes_messages_too(admin: Admin, apache: pulsar.Client, topic: str) -> None:
    name = f"non-persistent://public/default/{topic}"
    consumer = apache.subscribe(name, "s")
    answer = admin("POST", f"/topics/non-persistent/public/default/{topic}", {"messages": [{"payload": "x"}]})
    assert answer.status == 200
    assert consumer.receive(10_000).data() == b"x"
    consumer.close()


def test_trim_is_an_act(admin: Admin, shared_vela: VelaProcess, topic: str) -> None:
    produced(admin, topic, "x")
    admin.done("POST", f"persistent/public/default/{topic}/trim")
    assert admin("POST", "persistent/public/default/none-such/trim").status == 404
    assert rows(
        shared_vela.database_url,
        f"SELECT state, origin FROM vela_act WHERE kind = 'trim' AND topic_name LIKE '%{topic}'",
    ) == [("applied", "admin")]


def test_a_body_of_the_wrong_kind_is_refused_in_words(admin: Admin, topic: str) -> None:
    place = f"persistent/public/default/{topic}"
    assert admin("PUT", "tenants/bodiless").reason == "the request needs a body, in JSON"
    assert admin("POST", f"{PLACE}/{topic}", {}).reason == "the body lacks messages"
    assert admin("PUT", f"{place}/partitions", True).status == 400
    admin.done("PUT", f"{place}/partitions", 1)
    assert admin("POST", f"{place}/partitions", True).status == 400
    assert admin("POST", f"{place}/maxConsumers", True).status == 400
    assert admin("POST", f"{place}/messageTTL").reason == "the parameter messageTTL is missing"
    assert admin("POST", f"{place}/delayedDelivery", {"tickTime": 1}).status == 412


def test_one_backlog_quota_does_not_change_the_policy_of_the_other(admin: Admin, topic: str) -> None:
    place = f"persistent/public/default/{topic}"
    admin.done("PUT", place)
    size = {"limitSize": 10**9, "policy": "producer_exception"}
    admin.done("POST", f"{place}/backlogQuota", size)
    age = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
    refused = admin("POST", f"{place}/backlogQuota?backlogQuotaType=message_age", age)
    assert (refused.status, "one policy for both" in refused.reason) == (412, True)
    age["policy"] = "producer_exception"
    admin.done("POST", f"{place}/backlogQuota?backlogQuotaType=message_age", age)
    admin.done("DELETE", f"{place}/backlogQuota")
    age["policy"] = "consumer_backlog_eviction"
    admin.done("POST", f"{place}/backlogQuota?backlogQuotaType=message_age", age)
    admin.done("DELETE", f"{place}/backlogQuota?backlogQuotaType=message_age")
    admin.done("POST", f"{place}/backlogQuota", {"limitSize": 10**9})
    assert admin.get(f"{place}/backlogQuotaMap")["destination_storage"]["policy"] == "producer_request_hold"


def test_a_tenant_keeps_the_roles_that_it_had_before(admin: Admin, shared_vela: VelaProcess) -> None:
    tenant = f"early-{secrets.token_hex(3)}"
    shared_vela.manage("permission", "set", tenant, "eve", "admin")
    assert "PUT /admin/v2/tenants" in admin("GET", f"tenants/{tenant}").reason
    admin.done("PUT", f"tenants/{tenant}", {"adminRoles": ["ada"], "allowedClusters": ["vela"]})
    assert admin.get(f"tenants/{tenant}")["adminRoles"] == ["ada", "eve"]


def test_a_topic_with_many_partitions_is_deleted_without_loading_them(admin: Admin, topic: str) -> None:
    place = f"persistent/public/default/{topic}/partitions"
    admin.done("PUT", place, 3000)
    admin.done("DELETE", place)
    assert admin("GET", place).status == 404
