"""Questions about tenants, namespaces, topics and permissions."""

from __future__ import annotations

from tests.interop.programs.pulsar_admin.tool import Tool, check

__all__ = ["namespaces", "permissions", "tenants", "topics", "topics_more"]


def tenants(admin: Tool, namespace: str) -> None:
    tenant = namespace.replace("/", "-")
    admin(f"tenants create {tenant} --allowed-clusters vela --admin-roles a,b")
    admin.refused(f"tenants create {tenant} --allowed-clusters vela", "Tenant already exist")
    check(
        admin.value(f"tenants get {tenant}"),
        {"adminRoles": ["a", "b"], "allowedClusters": ["vela"]},
        "created",
    )
    admin(f"tenants update {tenant} --allowed-clusters vela --admin-roles c")
    check(admin.value(f"tenants get {tenant}")["adminRoles"], ["c"], "updated")
    check(tenant in admin.words("tenants list"), True, "listed")
    admin(f"tenants delete {tenant}")
    check(tenant in admin.words("tenants list"), False, "listed after its deletion")
    admin.refused(f"tenants get {tenant}", "Tenant does not exist")


def namespaces(admin: Tool, namespace: str) -> None:
    tenant, other = namespace.partition("/")[0], f"{namespace}-other"
    admin(f"namespaces create {other}")
    admin.refused(f"namespaces create {other}", "Namespace already exists")
    check(other in admin.words(f"namespaces list {tenant}"), True, "listed")
    check(admin.value(f"namespaces policies {other}")["replication_clusters"], ["vela"], "its clusters")
    admin(f"topics create persistent://{other}/t")
    check(admin.words(f"namespaces topics {other}"), [f"persistent://{other}/t"], "its topics")
    admin.refused(f"namespaces delete {other}", "Cannot delete non empty namespace")
    admin(f"topics delete persistent://{other}/t")
    admin(f"namespaces delete {other}")
    check(other in admin.words(f"namespaces list {tenant}"), False, "listed after its deletion")
    admin.refused(f"namespaces policies {other}", "Namespace does not exist")


def permissions(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    of_namespace = f"namespaces permissions {namespace}"
    of_subscription = f"namespaces subscription-permission {namespace}"
    of_topic = f"topics permissions {topic}"
    admin(f"namespaces grant-permission {namespace} --role r --actions produce,consume")
    check(admin.words(of_namespace), ["consume", "produce", "r"], "of the namespace")
    admin(f"namespaces revoke-permission {namespace} --role r")
    check(admin.words(of_namespace), [], "of the namespace, revoked")
    admin(f"namespaces grant-subscription-permission {namespace} --subscription s --roles r")
    check(admin.words(of_subscription), ["r", "s"], "of a subscription")
    admin(f"namespaces revoke-subscription-permission {namespace} --subscription s --role r")
    check(admin.words(of_subscription), [], "of a subscription, revoked")
    admin(f"topics grant-permission {topic} --role r --actions produce")
    check(admin.words(of_topic), ["produce", "r"], "of the topic")
    admin(f"topics revoke-permission {topic} --role r")
    check(admin.words(of_topic), [], "of the topic, revoked")


def topics(admin: Tool, namespace: str) -> None:
    topic, parts = f"persistent://{namespace}/t", f"persistent://{namespace}/p"
    admin(f"topics create {topic} --metadata a=b")
    admin.refused(f"topics create {topic}", "This topic already exists")
    check(admin.words(f"topics get-properties {topic}"), ["a", "b"], "its properties")
    admin(f"topics create-partitioned-topic {parts} --partitions 2")
    admin.refused(f"topics create-partitioned-topic {parts} --partitions 2", "This topic already exists")
    admin(f"topics update-partitioned-topic {parts} --partitions 3")
    admin.refused(f"topics update-partitioned-topic {parts} --partitions 1", "Number of partitions")
    check(
        admin.value(f"topics get-partitioned-topic-metadata {parts}")["partitions"], 3, "number of partitions"
    )
    check(admin.value(f"topics get-partitioned-topic-metadata {topic}")["partitions"], 0, "of no partitions")
    every = sorted([topic, *(f"{parts}-partition-{index}" for index in range(3))])
    check(admin.words(f"topics list {namespace}"), every, "all topics")
    check(admin.words(f"topics list-partitioned-topics {namespace}"), [parts], "partitioned topics")
    admin(f"topics delete {topic}")
    admin(f"topics delete-partitioned-topic {parts}")
    check(admin.words(f"topics list {namespace}"), [], "topics after their deletion")
    admin.refused(f"topics stats {topic}", f"Topic {topic} not found")


def topics_more(admin: Tool, namespace: str) -> None:
    topic, parts = f"persistent://{namespace}/t", f"persistent://{namespace}/p"
    admin(f"topics create-partitioned-topic {parts} --partitions 2")
    admin(f"topics create-missed-partitions {parts}")
    check(
        admin.words(f"topics list {namespace}"),
        [f"{parts}-partition-0", f"{parts}-partition-1"],
        "partitions",
    )
    check(admin(f"topics partitioned-terminate {parts}").count("successfully terminated"), 2, "ended")
    check(
        sorted(admin.value(f"topics partitioned-stats-internal {parts}")["partitions"]),
        [f"{parts}-partition-0", f"{parts}-partition-1"],
        "statistics of each partition's ledgers",
    )
    admin(f"topics create {topic}")
    admin(f"topics trim-topic {topic}")
    admin(f"topics truncate {topic}")
