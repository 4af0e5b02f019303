"""Questions about what a topic and the broker do, and about what Vela refuses."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from tests.interop.programs.pulsar_admin.publishing import publish, reason_of_refusal
from tests.interop.programs.pulsar_admin.tool import Tool, check

__all__ = ["brokers", "lifecycle", "lookup", "refusals", "token", "version"]


def lifecycle(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    last = publish(topic, "old", "new", key="k")[-1]
    admin(f"topics compact {topic}")
    check(
        admin(f"topics compaction-status {topic} --wait-complete"), "Compaction was a success", "compaction"
    )
    check(admin.value(f"topics stats-internal {topic}")["compactedLedger"]["entries"], 1, "compacted entries")
    admin(f"topics unload {topic}")
    admin(f"namespaces unload {namespace}")
    check(admin.value(f"topics stats-internal {topic}")["entriesAddedCounter"], 2, "entries after unloading")
    check(last in admin(f"topics terminate {topic}"), True, "the id of the last message")
    check("is terminated" in reason_of_refusal(topic), True, "publishing to the terminated topic")


def lookup(admin: Tool, namespace: str) -> None:
    topic, parts = f"persistent://{namespace}/t", f"persistent://{namespace}/p"
    admin(f"topics create {topic}")
    check(admin(f"topics lookup {topic}"), os.environ["INTEROP_URL"], "the broker of a topic")
    check(admin(f"topics bundle-range {topic}"), "0x00000000_0xffffffff", "the bundle of a topic")
    admin(f"topics create-partitioned-topic {parts} --partitions 2")
    found = admin(f"topics partitioned-lookup {parts}")
    check(found.count(os.environ["INTEROP_URL"]), 2, "the brokers of partitions")


def brokers(admin: Tool, namespace: str) -> None:
    url = os.environ["INTEROP_HTTP_URL"]
    broker = urlsplit(url).netloc
    check(admin("clusters list").split()[-1], "vela", "clusters")
    check(admin.value("clusters get vela")["serviceUrl"], url, "the cluster's URL")
    check(admin.words("brokers list vela"), [broker], "brokers")
    check(admin.value("brokers leader-broker"), {"serviceUrl": url, "brokerId": broker}, "leader")
    check(admin("brokers healthcheck"), "ok", "health")
    publish(f"persistent://{namespace}/t", "one")
    owned = admin(f"brokers namespaces vela --url {broker}")
    check(f"{namespace}/0x00000000_0xffffffff" in owned, True, "namespaces of the broker")
    check(namespace in admin.value("broker-stats topics"), True, "topics in its memory")
    check("authenticationEnabled    true" in admin("brokers get-runtime-config"), True, "settings")
    check(admin("brokers list-dynamic-config"), "", "settings that can change")
    check(admin("brokers get-all-dynamic-config"), "", "settings that were changed")


def version(admin: Tool, _namespace: str) -> None:
    check(admin("brokers version").split(".")[0], "4", "version of the API")


def refusals(admin: Tool, namespace: str) -> None:
    quorums = "--bookkeeper-ensemble 1 --bookkeeper-write-quorum 1 --bookkeeper-ack-quorum 1"
    admin.refused(
        f"namespaces set-persistence {namespace} {quorums} --ml-mark-delete-max-rate 0",
        "Vela stores messages in PostgreSQL",
    )
    admin.refused(
        f"functions list --tenant {namespace.partition('/')[0]} --namespace n", "Vela has no functions"
    )
    admin.refused("clusters create other --url http://other:8080", "Vela has one cluster")
    admin.refused(f"namespaces set-subscribe-rate {namespace} --subscribe-rate 10", "Vela has no such policy")


def token(admin: Tool, namespace: str) -> None:
    command = f"namespaces create {namespace}-other"
    app, stranger = os.environ["INTEROP_TOKEN"], os.environ["INTEROP_FOREIGN_TOKEN"]
    admin.refused(f"--auth-params token:{app} {command}", "the role 'app' may not")
    admin.refused(f"--auth-params token:{stranger} {command}", "no key of this broker signed the token")
