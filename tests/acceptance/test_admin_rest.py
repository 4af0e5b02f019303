"""Pulsar's admin API over HTTP, tested on a whole Vela while Apache's client publishes and consumes."""

from __future__ import annotations

import http.client
import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pulsar
import pytest

from broker.doors.admin.api import API
from broker.doors.admin.operations import described
from tests.support.broker_harness import rows
from tests.support.vela import VelaProcess
from tests.support.waiting import wait_until

NAMESPACE = "namespaces/acme/shop"
SHOP = "persistent/acme/shop"
VENDOR = "application/vnd.partitioned-topic-metadata+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """The broker's answer to one request."""

    status: int
    headers: dict[str, str]  # names in lower case
    names: frozenset[str]  # the headers' names, spelled as the broker sent them
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """Why the request was refused."""
        return str(self.json["reason"])


@dataclass(frozen=True, slots=True)
class Admin:
    """An HTTP client of one Vela."""

    url: str

    def __call__(
        self, method: str, path: str, body: Any = None, *, media_type: str = "application/json"
    ) -> Answer:
        """Send a request. Give `path` without /admin/v2/, unless it begins with a slash."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(
                method,
                path if path.startswith("/") else f"/admin/v2/{path}",
                body=None if body is None else json.dumps(body),
                headers={} if body is None else {"Content-Type": media_type},
            )
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            names = frozenset(name for name, _ in answer.getheaders())
            return Answer(answer.status, headers, names, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Send a GET, which must succeed, and return its JSON."""
        answer = self("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.json

    def done(self, method: str, path: str, body: Any = None) -> None:
        """Send a change, which must succeed with the answer that Pulsar gives."""
        answer = self(method, path, body)
        assert (answer.status, answer.body) == (204, b""), (path, answer)
        assert not answer.headers.keys() & {"content-type", "content-length", "transfer-encoding"}


@pytest.fixture(scope="module")
def admin(shared_vela: VelaProcess) -> Admin:
    """The API with the tenant acme and the namespace acme/shop."""
    client = Admin(shared_vela.http_url)
    client.done("PUT", "tenants/acme", {"adminRoles": ["ada"], "allowedClusters": ["vela"]})
    client.done("PUT", NAMESPACE)
    return client


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


def publish(apache: pulsar.Client, topic: str, *payloads: bytes, **properties: str) -> None:
    """Publish messages, each in a separate entry."""
    producer = apache.create_producer(f"persistent://acme/shop/{topic}", batching_enabled=False)
    for payload in payloads:
        producer.send(payload, properties=properties)
    producer.close()


def test_a_tenant_is_shown_changed_and_refused_as_by_pulsar(admin: Admin) -> None:
    assert "acme" in admin.get("tenants")
    assert admin.get("tenants/acme") == {"adminRoles": ["ada"], "allowedClusters": ["vela"]}
    admin.done("POST", "tenants/acme", {"adminRoles": ["ada", "eve"], "allowedClusters": ["vela"]})
    assert admin.get("tenants/acme")["adminRoles"] == ["ada", "eve"]
    taken = {"adminRoles": [], "allowedClusters": ["vela"]}
    assert admin("PUT", "tenants/acme", taken).status == 409
    assert admin("PUT", "tenants/new", {"adminRoles": []}).status == 412
    assert admin("PUT", "tenants/new", {"allowedClusters": ["mars"]}).status == 412
    assert admin("POST", "tenants/nobody", taken).status == 404
    assert admin("GET", "tenants/nobody").reason == "Tenant does not exist"
    assert admin("DELETE", "tenants/acme").status == 409
    assert admin("DELETE", "tenants/acme?force=true").status == 405


def test_pulsar_admin_gets_the_answers_that_its_client_needs(admin: Admin) -> None:
    # `pulsar-admin clusters list` marks the cluster that the runtime configuration names.
    assert admin.get("brokers/configuration/runtime")["clusterName"] == "vela"
    assert "the only metadata store is PostgreSQL" in admin("GET", "brokers/internal-configuration").reason
    # Java's admin client takes these as an int, a list and booleans, which cannot be empty.
    assert admin.get(f"{NAMESPACE}/maxTopicsPerNamespace") == 0
    assert admin.get(f"{NAMESPACE}/schemaValidationEnforced") is False
    admin.done("PUT", f"{SHOP}/java")
    assert admin.get(f"{SHOP}/java/schemaValidationEnforced") is False
    assert admin.get(f"{SHOP}/java/shadowTopics") == []
    assert "properties are set at creation" in admin("PUT", f"{SHOP}/java/properties", {"a": "b"}).reason


def test_a_tenant_stays_when_its_last_namespace_goes(admin: Admin) -> None:
    admin.done("PUT", "tenants/stays", {"allowedClusters": ["vela"]})
    admin.done("PUT", "namespaces/stays/only")
    assert admin.get("namespaces/stays") == ["stays/only"]
    admin.done("DELETE", "namespaces/stays/only")
    assert admin.get("namespaces/stays") == []
    admin.done("DELETE", "tenants/stays")
    assert admin("GET", "namespaces/stays").status == 404


def test_a_namespace_is_shown_created_and_deleted_as_by_pulsar(admin: Admin) -> None:
    assert admin.get("namespaces/acme") == ["acme/shop"]
    assert admin("PUT", NAMESPACE).status == 409
    assert admin("PUT", "namespaces/nobody/x").status == 404
    assert admin("GET", "namespaces/acme/none").status == 404
    document = admin.get(NAMESPACE)
    assert document["replication_clusters"] == ["vela"]
    assert document["bundles"]["numBundles"] == 1
    admin.done("PUT", "namespaces/acme/full", {"message_ttl_in_seconds": 60, "max_producers_per_topic": 3})
    assert admin.get("namespaces/acme/full")["message_ttl_in_seconds"] == 60
    assert admin.get("namespaces/acme/full/maxProducersPerTopic") == 3
    admin.done("DELETE", "namespaces/acme/full")


def test_a_namespace_is_created_with_backlog_quotas(admin: Admin) -> None:
    size = {"limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
    admin.done("PUT", "namespaces/acme/full", {"backlog_quota_map": {"destination_storage": size}})
    quotas = admin.get("namespaces/acme/full/backlogQuotaMap")
    assert quotas == {"destination_storage": size | {"limit": 1000}}
    admin.done("DELETE", "namespaces/acme/full")
    age = {"limitTime": 60, "policy": "producer_request_hold"}
    both = {"backlog_quota_map": {"destination_storage": size, "message_age": age}}
    assert "one policy for both" in admin("PUT", "namespaces/acme/full", both).reason
    assert admin("PUT", "namespaces/acme/full", {"backlog_quota_map": {"weight": size}}).status == 400
    assert admin("GET", "namespaces/acme/full").status == 404


def test_topics_are_created_listed_and_deleted_as_by_pulsar(admin: Admin) -> None:
    admin.done("PUT", f"{SHOP}/plain", {"colour": "red"})
    admin.done("PUT", f"{SHOP}/parted/partitions", 2)
    vendor = admin(
        "PUT", f"{SHOP}/vendor/partitions", {"partitions": 1, "properties": {"a": "b"}}, media_type=VENDOR
    )
    assert vendor.status == 204
    full = "persistent://acme/shop/"
    assert {f"{full}plain", f"{full}parted-partition-0", f"{full}parted-partition-1"} <= set(admin.get(SHOP))
    assert set(admin.get(f"{SHOP}/partitioned")) >= {f"{full}parted", f"{full}vendor"}
    assert admin.get(f"{SHOP}/plain/properties") == {"colour": "red"}
    assert admin.get(f"{SHOP}/vendor/partitions") == {
        "partitions": 1,
        "deleted": False,
        "properties": {"a": "b"},
    }
    assert admin.get(f"{SHOP}/plain/partitions")["partitions"] == 0
    assert admin("GET", f"{SHOP}/none/partitions").status == 404
    assert admin("PUT", f"{SHOP}/plain").status == 409
    assert admin("PUT", f"{SHOP}/parted").status == 409
    assert admin("PUT", "persistent/acme/none/x").status == 404
    assert admin("PUT", f"{SHOP}/x/partitions", 0).status == 406
    assert admin("PUT", f"{SHOP}/x-partition-1/partitions", 2).status == 412
    admin.done("POST", f"{SHOP}/parted/partitions", 3)
    assert admin("POST", f"{SHOP}/parted/partitions", 2).status == 422
    assert admin("POST", f"{SHOP}/plain/partitions", 2).status == 409
    assert admin("DELETE", f"{SHOP}/parted").status == 409
    assert admin("DELETE", f"{SHOP}/plain/partitions").status == 409
    assert admin("DELETE", f"{SHOP}/parted-partition-0/partitions").status == 412
    admin.done("POST", f"{SHOP}/parted/createMissedPartitions")
    assert admin("POST", f"{SHOP}/plain/createMissedPartitions").status == 404
    admin.done("DELETE", f"{SHOP}/parted/partitions")
    admin.done("DELETE", f"{SHOP}/vendor/partitions")
    admin.done("DELETE", f"{SHOP}/plain")
    assert admin("DELETE", f"{SHOP}/plain").status == 404


def test_non_persistent_topics_are_listed_apart_and_refuse_subscriptions(admin: Admin) -> None:
    admin.done("PUT", "non-persistent/acme/shop/passing")
    admin.done("PUT", "non-persistent/acme/shop/parts/partitions", 2)
    assert admin.get("non-persistent/acme/shop/partitioned") == ["non-persistent://acme/shop/parts"]
    listed = admin.get(f"{NAMESPACE}/topics?mode=NON_PERSISTENT")
    assert "non-persistent://acme/shop/passing" in listed
    assert "non-persistent://acme/shop/passing" not in admin.get(SHOP)
    assert admin.get("non-persistent/acme/shop/passing/stats")["subscriptions"] == {}
    assert admin("PUT", "non-persistent/acme/shop/passing/subscription/s").status == 400
    assert admin("GET", "non-persistent/acme/shop/passing/lastMessageId").status == 405
    admin.done("DELETE", "non-persistent/acme/shop/passing")
    admin.done("DELETE", "non-persistent/acme/shop/parts/partitions")


def test_stats_name_the_connected_clients_and_count_their_messages(
    admin: Admin, apache: pulsar.Client
) -> None:
    consumer = apache.subscribe(
        "persistent://acme/shop/stats",
        "workers",
        consumer_type=pulsar.ConsumerType.Shared,
        consumer_name="ann",
        properties={"team": "blue"},
    )
    producer = apache.create_producer("persistent://acme/shop/stats", producer_name="pam")
    for index in range(4):
        producer.send(b"%d" % index)
    first = consumer.receive(10_000)
    consumer.acknowledge(first)
    wait_until(
        lambda: admin.get(f"{SHOP}/stats/stats")["subscriptions"]["workers"]["msgBacklog"] == 3, "an ack"
    )
    stats = admin.get(f"{SHOP}/stats/stats?getEarliestTimeInBacklog=true")
    assert (stats["msgInCounter"], stats["waitingPublishers"], stats["deduplicationStatus"]) == (
        4,
        0,
        "Disabled",
    )
    assert stats["storageSize"] > 0
    assert stats["topicCreationTimeStamp"] > 0
    assert 0 <= stats["oldestBacklogMessageAgeSeconds"] < 60
    assert stats["oldestBacklogMessageSubscriptionName"] == "workers"
    (publisher,) = stats["publishers"]
    assert (publisher["producerName"], publisher["accessMode"]) == ("pam", "Shared")
    workers = stats["subscriptions"]["workers"]
    assert (workers["type"], workers["durable"], workers["isDurable"]) == ("Shared", True, True)
    assert (workers["unackedMessages"], workers["backlogSize"] > 0) == (3, True)
    (shown,) = workers["consumers"]
    assert (shown["consumerName"], shown["metadata"]) == ("ann", {"team": "blue"})
    assert shown["address"].startswith("/127.0.0.1:")
    assert (
        admin.get(f"{SHOP}/stats/stats?subscriptionBacklogSize=false")["subscriptions"]["workers"][
            "backlogSize"
        ]
        == -1
    )
    assert admin.get(f"{SHOP}/stats/stats?excludePublishers=true")["publishers"] == []
    internal = admin.get(f"{SHOP}/stats/internalStats")
    assert (internal["state"], internal["numberOfEntries"]) == ("LedgerOpened", 4)
    assert internal["ledgers"][-1]["entries"] == 0
    assert internal["currentLedgerEntries"] == 4
    assert internal["cursors"]["workers"]["markDeletePosition"] == (
        f"{first.message_id().ledger_id()}:{first.message_id().entry_id()}"
    )
    assert internal["compactedLedger"]["ledgerId"] == -1
    whole = admin.get("broker-stats/topics")["acme/shop"]["0x00000000_0xffffffff"]["persistent"]
    assert whole["persistent://acme/shop/stats"]["msgInCounter"] == 4
    assert admin("DELETE", f"{SHOP}/stats").status == 412
    assert admin("DELETE", f"{SHOP}/stats/subscription/workers").status == 412
    consumer.close()
    producer.close()
    admin.done("DELETE", f"{SHOP}/stats")


def test_partitioned_stats_are_merged(admin: Admin, apache: pulsar.Client) -> None:
    admin.done("PUT", f"{SHOP}/merged/partitions", 2)
    admin.done("PUT", f"{SHOP}/merged/subscription/s", "earliest")
    producer = apache.create_producer(
        "persistent://acme/shop/merged",
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    )
    for _ in range(6):
        producer.send(b"x")
    producer.close()
    stats = admin.get(f"{SHOP}/merged/partitioned-stats")
    assert stats["metadata"]["partitions"] == 2
    assert stats["subscriptions"]["s"]["msgBacklog"] == stats["msgInCounter"] == 6
    parts = stats["partitions"].values()
    assert sum(each["msgInCounter"] for each in parts) == 6
    assert admin.get(f"{SHOP}/merged/partitioned-stats?perPartition=false")["partitions"] == {}
    assert admin("GET", f"{SHOP}/merged/stats").status == 404
    assert set(admin.get(f"{SHOP}/merged/partitioned-internalStats")["partitions"]) == set(
        stats["partitions"]
    )
    for path in ("internalStats", "subscription/s/position/1", "examinemessage"):
        assert admin("GET", f"{SHOP}/merged/{path}").status == 405
    assert admin("GET", f"{SHOP}/merged/lastMessageId").status == 404
    assert admin("POST", f"{SHOP}/merged/subscription/s/skip/1").status == 405
    admin.done("POST", f"{SHOP}/merged/subscription/s/skip_all")
    assert admin.get(f"{SHOP}/merged/partitioned-stats")["subscriptions"]["s"]["msgBacklog"] == 0
    assert admin.get(f"{SHOP}/merged/subscriptions") == ["s"]
    ended = admin("POST", f"{SHOP}/merged/terminate/partitions").json
    assert set(ended) == {"0", "1"}
    admin.done("DELETE", f"{SHOP}/merged/partitions")


def test_a_new_subscription_creates_its_topic_where_connecting_would(admin: Admin) -> None:
    creation = f"{NAMESPACE}/autoTopicCreation"
    admin.done("PUT", f"{SHOP}/early/subscription/a")
    assert admin.get(f"{SHOP}/early/subscriptions") == ["a"]
    parted = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
    admin.done("POST", creation, parted)
    admin.done("PUT", f"{SHOP}/early-parts/subscription/a")
    assert admin.get(f"{SHOP}/early-parts/partitions")["partitions"] == 2
    assert admin.get(f"{SHOP}/early-parts/subscriptions") == ["a"]
    admin.done("POST", creation, {"allowAutoTopicCreation": False})
    refused = admin("PUT", f"{SHOP}/none/subscription/a")
    assert refused.status == 412
    assert "auto_create_topics" in refused.reason
    admin.done("DELETE", creation)
    assert admin("PUT", "persistent/acme/none/none/subscription/a").status == 404


def test_subscriptions_are_created_moved_and_deleted_as_by_pulsar(
    admin: Admin, apache: pulsar.Client
) -> None:
    admin.done("PUT", f"{SHOP}/moves")
    sub = f"{SHOP}/moves/subscription/a"
    admin.done("PUT", sub, {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "properties": {"k": "v"}})
    assert admin("PUT", sub).status == 409
    assert admin.get(f"{sub}/properties") == {"k": "v"}
    admin.done("PUT", f"{sub}/properties", {"x": "y"})
    assert admin.get(f"{sub}/properties") == {"x": "y"}
    publish(apache, "moves", b"0", b"1", b"2", b"3", b"4")

    def backlog() -> int:
        return int(admin.get(f"{SHOP}/moves/stats")["subscriptions"]["a"]["msgBacklog"])

    assert backlog() == 5
    admin.done("POST", f"{sub}/skip/2")
    assert backlog() == 3
    analysis = admin("POST", f"{sub}/analyzeBacklog").json
    assert (analysis["entries"], analysis["messages"]) == (3, 3)
    last = admin.get(f"{SHOP}/moves/lastMessageId")
    assert (last["entryId"], last["partitionIndex"]) == (4, -1)
    admin.done("POST", f"{sub}/resetcursor", {**last, "entryId": 1})
    assert backlog() == 4
    admin.done("POST", f"{sub}/resetcursor", {**last, "entryId": 1, "excluded": True})
    assert backlog() == 3
    admin.done("POST", f"{sub}/resetcursor/0")
    assert backlog() == 5
    admin.done("POST", f"{sub}/expireMessages", {**last, "entryId": 0})
    assert backlog() == 4
    assert admin("POST", f"{sub}/expireMessages", {**last, "partitionIndex": 3}).status == 412
    for which in ("subscription/a", "all_subscription"):
        refused = admin("POST", f"{SHOP}/moves/{which}/expireMessages/-5")
        assert (refused.status, "at least 0 seconds" in refused.reason) == (412, True)
    assert backlog() == 4
    admin.done("POST", f"{sub}/expireMessages/0")
    assert backlog() == 0
    assert admin("POST", f"{sub}/expireMessages/0").status == 409
    admin.done("POST", f"{sub}/resetcursor", "earliest")
    admin.done("POST", f"{SHOP}/moves/all_subscription/expireMessages/0")
    admin.done("POST", f"{sub}/resetcursor", "earliest")
    admin.done("POST", f"{sub}/skip_all")
    assert backlog() == 0
    assert admin("POST", f"{SHOP}/moves/subscription/none/skip_all").status == 404
    admin.done("DELETE", sub)
    assert admin("DELETE", sub).status == 404
    assert admin.get(f"{SHOP}/moves/subscriptions") == []


def test_expiring_by_time_treats_each_partition_and_subscription_by_itself(
    admin: Admin, apache: pulsar.Client
) -> None:
    admin.done("PUT", f"{SHOP}/parts/partitions", 2)
    for name in "ab":
        admin.done("PUT", f"{SHOP}/parts/subscription/{name}", "earliest")

    def backlogs() -> list[int]:
        found = admin.get(f"{SHOP}/parts/partitioned-stats")["subscriptions"]
        return [found[name]["msgBacklog"] for name in "ab"]

    publish(apache, "parts-partition-1", b"0", b"1")
    assert backlogs() == [2, 2]
    refused = admin("POST", f"{SHOP}/parts/subscription/a/expireMessages/0")
    assert (refused.status, "parts-partition-0" in refused.reason) == (409, True)
    assert backlogs() == [0, 2]
    assert admin("POST", f"{SHOP}/parts/all_subscription/expireMessages/0").status == 409
    assert backlogs() == [0, 0]


def test_messages_are_read_by_their_place(admin: Admin, apache: pulsar.Client) -> None:
    admin.done("PUT", f"{SHOP}/peek")
    admin.done("PUT", f"{SHOP}/peek/subscription/a", "earliest")
    assert admin("GET", f"{SHOP}/peek/examinemessage").status == 412
    before_ms = int(time.time() * 1000) - 1000
    publish(apache, "peek", b"first", b"second", colour="gr\u00fcn")
    batched = apache.create_producer(
        "persistent://acme/shop/peek",
        batching_enabled=True,
        batching_max_messages=2,
        batching_max_publish_delay_ms=1000,
        compression_type=pulsar.CompressionType.LZ4,
    )
    batched.send_async(b"in", lambda *_: None)
    batched.send_async(b"batch", lambda *_: None)
    batched.flush()
    sub = f"{SHOP}/peek/subscription/a"
    first = admin("GET", f"{sub}/position/1")
    assert (first.status, first.body) == (200, b"first")
    assert first.headers["x-pulsar-is-encrypted"] == "false"
    assert "X-Pulsar-PROPERTY" in first.names  # Java's client accepts no other spelling
    assert json.loads(first.headers["x-pulsar-property"]) == {"colour": "gr\u00fcn"}
    assert "x-pulsar-num-batch-message" not in first.headers
    batch = admin("GET", f"{sub}/position/3")
    assert batch.headers["x-pulsar-num-batch-message"] == "2"
    assert batch.headers["x-pulsar-compression"] == "LZ4"
    (head_bytes,) = struct.unpack_from(">I", batch.body)
    assert batch.body[4 + head_bytes :].startswith(b"in")
    assert admin("GET", f"{sub}/position/4").status == 404
    assert admin("GET", f"{sub}/position/0").status == 412
    assert (
        admin("GET", f"{SHOP}/peek/examinemessage?initialPosition=earliest&messagePosition=2").body
        == b"second"
    )
    assert "x-pulsar-batch-size" in admin("GET", f"{SHOP}/peek/examinemessage").headers
    ledger = first.headers["x-pulsar-message-id"].partition(":")[0]
    assert admin("GET", f"{SHOP}/peek/ledger/{ledger}/entry/1").body == b"second"
    assert admin("GET", f"{SHOP}/peek/ledger/{ledger}/entry/99").status == 404
    assert admin("GET", f"{SHOP}/peek/ledger/1{ledger}/entry/0").status == 404
    last = admin.get(f"{SHOP}/peek/lastMessageId")
    assert (last["batchIndex"], last["batchSize"]) == (1, 2)
    assert admin.get(f"{SHOP}/peek/messageid/{before_ms}")["entryId"] == 0
    assert admin("GET", f"{SHOP}/peek/messageid/{before_ms + 3_600_000}").status == 404
    whole = admin("PUT", f"{SHOP}/peek/backlogSize", {"ledgerId": -1, "entryId": -1}).json
    rest = admin("PUT", f"{SHOP}/peek/backlogSize", {"ledgerId": int(ledger), "entryId": 1}).json
    assert whole == admin.get(f"{SHOP}/peek/stats")["storageSize"] > rest > 0
    batched.close()


def test_a_topic_is_compacted_unloaded_terminated_and_truncated(admin: Admin, apache: pulsar.Client) -> None:
    publish(apache, "ends", b"1", b"2")
    admin.done("PUT", f"{SHOP}/ends/compaction")
    wait_until(lambda: admin.get(f"{SHOP}/ends/compaction")["status"] == "SUCCESS", "a compaction")
    admin.done("PUT", f"{SHOP}/ends/unload")
    assert admin("POST", f"{SHOP}/ends/terminate").json["entryId"] == 1
    assert admin.get(f"{SHOP}/ends/internalStats")["state"] == "Terminated"
    admin.done("DELETE", f"{SHOP}/ends/truncate")
    assert admin("PUT", f"{SHOP}/none/unload").status == 404


@pytest.mark.parametrize(
    ("path", "verb", "value"),
    [
        ("retention", "POST", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}),
        ("messageTTL", "POST", 3600),
        ("deduplication", "POST", True),
        ("maxConsumersPerTopic", "POST", 7),
        ("maxUnackedMessagesPerConsumer", "POST", 100),
        ("compactionThreshold", "PUT", 1_000_000),
        ("subscriptionExpirationTime", "POST", 5),
        ("publishRate", "POST", {"publishThrottlingRateInMsg": 9, "publishThrottlingRateInByte": -1}),
        (
            "dispatchRate",
            "POST",
            {
                "dispatchThrottlingRateInMsg": 5,
                "dispatchThrottlingRateInByte": -1,
                "ratePeriodInSecond": 1,
                "relativeToPublishRate": False,
            },
        ),
        (
            "autoTopicCreation",
            "POST",
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2},
        ),
        ("autoSubscriptionCreation", "POST", {"allowAutoSubscriptionCreation": False}),
        (
            "inactiveTopicPolicies",
            "POST",
            {
                "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
                "maxInactiveDurationSeconds": 600,
                "deleteWhileInactive": True,
            },
        ),
    ],
)
def test_a_policy_of_a_namespace_is_set_read_and_removed(
    admin: Admin, path: str, verb: str, value: Any
) -> None:
    if admin("GET", "namespaces/acme/rules").status == 404:
        admin.done("PUT", "namespaces/acme/rules")
    admin.done(verb, f"namespaces/acme/rules/{path}", value)
    assert admin.get(f"namespaces/acme/rules/{path}") == value
    admin.done("DELETE", f"namespaces/acme/rules/{path}")
    unset = admin("GET", f"namespaces/acme/rules/{path}")
    assert (unset.status, unset.body) == (204, b"")


def test_the_schema_strategy_of_a_namespace_is_undefined_unless_it_is_set(admin: Admin) -> None:
    admin.done("PUT", "namespaces/acme/strategic")
    path = "namespaces/acme/strategic/schemaCompatibilityStrategy"
    assert admin.get(path) == "UNDEFINED"  # Pulsar's tools cannot read an empty answer
    admin.done("PUT", path, "BACKWARD")
    assert admin.get(path) == "BACKWARD"
    admin.done("DELETE", path)
    assert admin.get(path) == "UNDEFINED"
    admin.done("PUT", path, "FULL")
    admin.done("PUT", path, "UNDEFINED")  # pulsar-admin removes the strategy like this
    assert admin.get(path) == "UNDEFINED"
    assert admin("PUT", path, "NONE").status == 412


def test_policies_of_a_topic_are_set_and_read(admin: Admin) -> None:
    admin.done("PUT", f"{SHOP}/ruled")
    admin.done("POST", f"{SHOP}/ruled/messageTTL?messageTTL=60")
    assert admin.get(f"{SHOP}/ruled/messageTTL") == 60
    admin.done("POST", f"{SHOP}/ruled/maxProducers", 2)
    admin.done(
        "POST", f"{SHOP}/ruled/backlogQuota", {"limitSize": 1000, "policy": "consumer_backlog_eviction"}
    )
    quota = admin.get(f"{SHOP}/ruled/backlogQuotaMap")["destination_storage"]
    assert (quota["limitSize"], quota["policy"]) == (1000, "consumer_backlog_eviction")
    assert admin("GET", f"{SHOP}/ruled/maxConsumers").status == 204
    assert admin.get(f"{SHOP}/ruled/maxConsumers?applied=true") == 0
    assert admin.get(f"{SHOP}/ruled/stats")["backlogQuotaLimitSize"] == 1000
    assert admin("POST", f"{SHOP}/ruled/maxProducers", -5).status == 412
    assert admin("POST", f"{SHOP}/ruled/persistence", {}).status == 405


def test_permissions_are_granted_and_taken_away(admin: Admin, shared_vela: VelaProcess) -> None:
    place, topic = "namespaces/acme/granted", "persistent/acme/granted/orders"
    admin.done("PUT", place)
    admin.done("POST", f"{place}/permissions/ada", ["produce", "consume"])
    admin.done("POST", f"{place}/permissions/ada", ["produce"])
    admin.done("POST", f"{topic}/permissions/ada", ["consume"])
    admin.done("POST", f"{place}/permissions/subscription/billing", ["bob", "eve"])
    admin.done("DELETE", f"{place}/permissions/billing/eve")
    assert admin.get(f"{place}/permissions") == {"ada": ["produce"]}
    assert admin.get(f"{topic}/permissions") == {"ada": ["consume", "produce"]}
    assert admin.get(f"{place}/permissions/subscription") == {"billing": ["bob"]}
    assert admin.get(place)["auth_policies"] == {
        "namespaceAuthentication": {"ada": ["produce"]},
        "topicAuthentication": {"persistent://acme/granted/orders": {"ada": ["consume"]}},
        "subscriptionAuthentication": {"billing": ["bob"]},
    }
    assert admin("POST", f"{place}/permissions/ada", ["rule"]).status == 400
    assert admin("POST", f"{place}/permissions/subscription/billing", ["a\0"]).status == 412
    assert admin("DELETE", f"{topic}/permissions/bob").status == 412
    admin.done("DELETE", f"{topic}/permissions/ada")
    admin.done("DELETE", f"{place}/permissions/ada")
    assert admin.get(f"{place}/permissions") == {}
    assert rows(
        shared_vela.database_url,
        "SELECT parameters ->> 'role', who, origin FROM vela_act"
        " WHERE kind = 'set_permissions' AND subscription_name = 'billing' ORDER BY id",
    ) == [("bob, eve", "anonymous", "admin"), ("eve", "anonymous", "admin")]


def test_metrics_have_the_path_and_the_label_that_pulsar_gives_them(admin: Admin) -> None:
    admin.done("PUT", f"{SHOP}/measured")
    admin.done("PUT", f"{SHOP}/measured/subscription/s")
    page = admin("GET", "/metrics/").body.decode()
    assert 'pulsar_subscription_msg_rate_out{cluster="vela"' in page
    assert 'pulsar_storage_backlog_size{cluster="vela"' in page


def test_schemas_are_stored_checked_and_deleted(admin: Admin) -> None:
    admin.done("PUT", f"{SHOP}/shaped")
    shaped = "schemas/acme/shop/shaped"
    assert admin("GET", f"{shaped}/schema").reason == "Schema not found"
    record = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "int"}],
    }
    payload = {"type": "AVRO", "schema": json.dumps(record), "properties": None}
    assert admin("POST", f"{shaped}/schema", payload).json == {"version": {"version": 0}}
    early = admin("POST", "schemas/acme/shop/shaped-early/schema", payload)  # before the topic exists
    assert early.json == {"version": {"version": 0}}
    found = admin.get(f"{shaped}/schema")
    assert (found["version"], found["type"], json.loads(found["data"])) == (0, "AVRO", record)
    assert admin.get(f"{shaped}/schema/0") == found
    assert admin("GET", f"{shaped}/schema/1").status == 404
    assert admin.get(f"{shaped}/schemas") == {"getSchemaResponses": [found]}
    assert admin("POST", f"{shaped}/version", payload).json == {"version": 0}
    other = {"type": "STRING", "schema": "", "properties": {}}
    verdict = admin("POST", f"{shaped}/compatibility", other).json
    assert verdict == {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
    assert admin("POST", f"{shaped}/schema", other).status == 409
    assert admin("POST", f"{shaped}/schema", {"type": "AVRO", "schema": "{"}).status == 422
    assert admin("DELETE", f"{shaped}/schema").json == {"version": 1}
    assert admin("GET", f"{shaped}/schema").status == 404
    assert admin("DELETE", f"{shaped}/schema").status == 404
    assert admin("POST", f"{shaped}/schema", other).json == {"version": {"version": 2}}
    assert [each["version"] for each in admin.get(f"{shaped}/schemas")["getSchemaResponses"]] == [2]


def test_changes_are_in_the_act_log(admin: Admin, shared_vela: VelaProcess) -> None:
    admin.done("PUT", f"{SHOP}/logged")
    admin.done("PUT", f"{SHOP}/logged/subscription/a", "earliest")
    admin.done("POST", f"{SHOP}/logged/subscription/a/skip_all")
    logged = rows(
        shared_vela.database_url,
        "SELECT kind, state, who, origin FROM vela_act WHERE topic_name = 'persistent://acme/shop/logged' ORDER BY id",
    )
    assert logged == [
        ("create_subscription", "applied", "anonymous", "admin"),
        ("clear", "applied", "anonymous", "admin"),
    ]


def test_a_protected_namespace_asks_for_a_reason(admin: Admin, shared_vela: VelaProcess) -> None:
    admin.done("PUT", "namespaces/acme/safe")
    shared_vela.manage("setpolicy", "acme/safe", "protected=true", "--yes")
    refused = admin("PUT", "persistent/acme/safe/x")
    assert refused.status == 412
    assert "protected" in refused.reason


def test_a_namespace_that_needs_a_second_person_takes_no_act_by_this_api(
    admin: Admin, shared_vela: VelaProcess
) -> None:
    admin.done("PUT", "namespaces/acme/two")
    admin.done("PUT", "persistent/acme/two/x")
    admin.done("PUT", "persistent/acme/two/x/subscription/a", "earliest")
    shared_vela.manage("setpolicy", "acme/two", "second_person=true", "--yes")
    for method, path, body in (
        ("POST", "persistent/acme/two/x/subscription/a/skip_all", None),
        ("POST", "persistent/acme/two/x/subscription/a/resetcursor/0", None),
        ("DELETE", "persistent/acme/two/x", None),
        ("POST", "namespaces/acme/two/messageTTL", 60),
    ):
        refused = admin(method, path, body)
        assert refused.status == 412
        assert "asks for a second person" in refused.reason
    with pytest.raises(AssertionError, match="only users with an account count"):
        shared_vela.manage("setpolicy", "acme/two", "--unset", "second_person", "--yes")


def test_every_operation_answers_in_pulsars_shape(admin: Admin) -> None:
    """No operation ends in an internal error: names that do not exist are refused with a reason."""
    names = {
        "tenant": "ghost",
        "namespace": "ghost",
        "domain": "persistent",
        "topic": "ghost",
        "subscription": "ghost",
        "cluster": "ghost",
        "broker": "ghost",
        "bundle": "0x00000000_0xffffffff",
        "role": "ghost",
    }
    asked = 0
    for each in described(API):
        path = each.path
        for name, value in names.items():
            path = path.replace(f"{{{name}}}", value)
        while "{" in path:  # the other parameters are numbers
            start, end = path.index("{"), path.index("}")
            path = path[:start] + "1" + path[end + 1 :]
        answer = admin(each.method, path)
        asked += 1
        assert answer.status in (200, 204, 400, 404, 405, 409, 412, 501), (each, answer)
        if answer.status >= 400:
            assert answer.headers["content-type"] == "application/json"
            assert answer.reason
        if each.refused:
            assert answer.status in (405, 501)
    assert asked > 200
