"""Questions about statistics, subscriptions, messages and schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from tests.interop.programs.pulsar_admin.publishing import publish, publish_batch
from tests.interop.programs.pulsar_admin.tool import Tool, check

__all__ = ["messages", "messages_more", "schemas", "statistics", "subscriptions", "subscriptions_more"]


def _backlog(admin: Tool, topic: str) -> int:
    return int(admin.value(f"topics stats {topic}")["subscriptions"]["s"]["msgBacklog"])


def statistics(admin: Tool, namespace: str) -> None:
    topic, parts = f"persistent://{namespace}/t", f"persistent://{namespace}/p"
    admin(f"topics create {topic}")
    admin(f"topics create-subscription {topic} --subscription s")
    last = publish(topic, "one", "two", "three")[-1]
    stats = admin.value(f"topics stats {topic} --get-precise-backlog --get-subscription-backlog-size")
    check((stats["msgInCounter"], stats["subscriptions"]["s"]["msgBacklog"]), (3, 3), "published and waiting")
    internal = admin.value(f"topics stats-internal {topic}")
    check((internal["entriesAddedCounter"], internal["lastConfirmedEntry"]), (3, last), "entries")
    check(list(internal["cursors"]), ["s"], "cursors")
    admin(f"topics create-partitioned-topic {parts} --partitions 2")
    publish(f"{parts}-partition-0", "one")
    publish(f"{parts}-partition-1", "two", "three")
    merged = admin.value(f"topics partitioned-stats {parts} --per-partition")
    check((merged["metadata"]["partitions"], merged["msgInCounter"]), (2, 3), "partitions and messages")
    found = {name[-1]: each["msgInCounter"] for name, each in merged["partitions"].items()}
    check(found, {"0": 1, "1": 2}, "messages of each partition")


def subscriptions(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    first, second, *_ = publish(topic, "one", "two", "three", "four")
    admin(f"topics create-subscription {topic} --subscription s --messageId earliest")
    admin(f"topics create-subscription {topic} --subscription late --messageId latest")
    admin.refused(f"topics create-subscription {topic} --subscription s", "already has a subscription s")
    check(admin.words(f"topics subscriptions {topic}"), ["late", "s"], "subscriptions")
    check(_backlog(admin, topic), 4, "backlog from the beginning")
    admin(f"topics skip {topic} --subscription s --count 3")
    check(_backlog(admin, topic), 1, "backlog after the skip")
    admin(f"topics reset-cursor {topic} --subscription s --messageId {second}")
    check(_backlog(admin, topic), 3, "backlog after the reset to the second message")
    admin(f"topics clear-backlog {topic} --subscription s")
    check(_backlog(admin, topic), 0, "backlog, cleared")
    admin(f"topics reset-cursor {topic} --subscription s --time 1h")
    check(_backlog(admin, topic), 4, "backlog after the reset by time")
    admin(f"topics expire-messages {topic} --subscription s --expireTime 0")
    check(_backlog(admin, topic), 0, "backlog, expired")
    admin(f"topics unsubscribe {topic} --subscription late")
    admin(f"topics reset-cursor {topic} --subscription s --messageId {first}")
    admin(f"topics expire-messages-all-subscriptions {topic} --expireTime 3600")
    check(_backlog(admin, topic), 4, "backlog, of which nothing is an hour old")
    admin(f"namespaces clear-backlog {namespace} --force")
    check(_backlog(admin, topic), 0, "backlog, cleared in the namespace")
    admin(f"topics unsubscribe {topic} --subscription s --force")
    check(admin.words(f"topics subscriptions {topic}"), [], "subscriptions after their deletion")


def subscriptions_more(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    _, second, _ = publish(topic, "one", "two", "three")
    admin(f"topics create-subscription {topic} --subscription s --messageId earliest --property a=b")
    check(
        admin.value(f"topics get-subscription-properties {topic} --subscription s"), {"a": "b"}, "properties"
    )
    admin(f"topics update-subscription-properties {topic} --subscription s --property c=d")
    check(
        admin.value(f"topics get-subscription-properties {topic} --subscription s"),
        {"c": "d"},
        "properties, updated",
    )
    admin(f"topics expire-messages {topic} --subscription s --position {second}")
    check(_backlog(admin, topic), 1, "backlog after the second message")


def messages(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    admin(f"topics create-subscription {topic} --subscription s")
    (first,) = publish(topic, "one", key="k")
    publish_batch(topic, "two", "three")
    ledger = first.partition(":")[0]
    peeked = admin(f"topics peek-messages {topic} --subscription s --count 3")
    check(
        [word for word in ("one", "two", "three") if f"|{word} " in peeked], ["one", "two", "three"], "peeked"
    )
    last = admin.value(f"topics last-message-id {topic}")
    check((last["ledgerId"], last["entryId"]), (int(ledger), 1), "last id")
    check(
        "|one " in admin(f"topics get-message-by-id {topic} --ledgerId {ledger} --entryId 0"), True, "by id"
    )
    batch = admin(f"topics get-message-by-id {topic} --ledgerId {ledger} --entryId 1")
    check("|two " in batch, True, "the first message of a batch, by id")
    found = admin.value(f"topics get-message-id {topic} --datetime 2020-01-01T00:00:00Z")
    check((found["ledgerId"], found["entryId"]), (int(ledger), 0), "id by time")
    admin.refused(f"topics get-message-by-id {topic} --ledgerId {ledger} --entryId 9", "not found")


def messages_more(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    admin(f"topics create {topic}")
    admin(f"topics create-subscription {topic} --subscription s")
    first, last = publish(topic, "one", "two")
    for place, payload in (("earliest", "one"), ("latest", "two")):
        shown = admin(f"topics examine-messages {topic} --initialPosition {place} --messagePosition 1")
        check(f"|{payload} " in shown, True, f"the {place} message")
    sizes = [int(admin(f"topics get-backlog-size {topic} --messageId {each}")) for each in (first, last)]
    check(sizes[0] > sizes[1] > 0, True, f"backlogs from the first and the last message, {sizes}")
    analysis = admin.value(f"topics analyze-backlog {topic} --subscription s")
    check((analysis["entries"], analysis["messages"]), (2, 2), "analysis of the backlog")


@contextmanager
def _schema_file(*fields: Mapping[str, object]) -> Iterator[str]:
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"type": "AVRO", "schema": schema, "properties": {}}, file)
        file.flush()
        yield file.name


def schemas(admin: Tool, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    article, pieces = {"name": "article", "type": "string"}, {"name": "pieces", "type": "int", "default": 0}
    admin(f"topics create {topic}")
    admin.refused(f"schemas get {topic}", "Schema not found")
    with _schema_file(article) as first, _schema_file(article, pieces) as second:
        admin(f"schemas upload {topic} --filename {first}")
        admin(f"schemas upload {topic} --filename {second}")
        admin(f"schemas compatibility {topic} --filename {second}")
    with _schema_file({"name": "article", "type": "int"}) as other:
        admin.refused(f"schemas upload {topic} --filename {other}", "cannot be read as int")
    latest = admin.value(f"schemas get {topic}")
    check((latest["version"], latest["schemaInfo"]["schema"]["fields"]), (1, [article, pieces]), "the latest")
    oldest = admin.value(f"schemas get {topic} --version 0")
    check((oldest["type"], oldest["schema"]["fields"]), ("AVRO", [article]), "the first")
    every = admin(f"schemas get {topic} --all-version")
    check(every.count("AVRO"), 2, "all versions")
    admin(f"schemas delete {topic}")
    admin.refused(f"schemas get {topic}", "Schema not found")
