"""`spark.read.format("vela")`: what it reads equals what was published."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipeline.checksum import checksum_of_frame
from pipeline.errors import PipelineError, SchemaUnusable, sentence_of
from pipeline.schemas import expand, topic_schema
from tests.integration.pipeline.publishing import (
    BETWEEN_APPENDS_MS,
    PUBLISH_TIME_MS,
    StoredTopic,
    create_partitioned,
    create_subscription,
    create_topic,
    open_segment,
    trim_first_ledger,
)
from vela.wire.entry import Compression, OutgoingMessage, encode_single
from vela.wire.message_id import MessageId

Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, log_url: str) -> Read:
    def load(topic: str, **options: str) -> DataFrame:
        return (
            spark.read.format("vela").option("topic", topic).option("url", log_url).options(**options).load()
        )

    return load


def refused(action: Callable[[], object]) -> str:
    """Return the sentence with which the data source refuses the action."""
    with pytest.raises((PySparkException, PipelineError)) as caught:
        action()
    sentence = sentence_of(caught.value)
    assert sentence is not None, str(caught.value)
    return sentence


def some_message(rng: random.Random, number: int) -> OutgoingMessage:
    return OutgoingMessage(
        payload=b"%d:" % number + rng.randbytes(rng.choice([0, 7, 100, 3_000])),
        properties={f"p{index}": f"wert {index} ü" for index in range(rng.choice([0, 0, 1, 3]))},
        key=rng.choice([None, "", "kund€"]),
        event_time_ms=rng.choice([0, PUBLISH_TIME_MS - 5_000]),
    )


def fill(topic: StoredTopic, *, seed: int, ledgers: int, entries: int) -> None:
    """Add ledgers, half of them in a second segment, with single messages and batches of every codec."""
    rng = random.Random(seed)
    codecs = list(Compression)
    segments = [1, open_segment(topic.url)]
    number = 0
    for index in range(ledgers):
        topic.open_ledger(segments[index * len(segments) // ledgers])
        for entry in range(entries):
            codec = codecs[entry % len(codecs)]
            if entry % 3 == 0:
                topic.publish(some_message(rng, number), codec)
                number += 1
            else:
                size = rng.randrange(1, 40)
                topic.publish_batch([some_message(rng, number + each) for each in range(size)], codec)
                number += size
    topic.open_ledger(segments[-1])


def test_a_batch_member_and_a_single_message_fill_their_columns(read: Read, log_url: str) -> None:
    topic = create_topic(log_url, "columns")
    topic.open_ledger(1)
    topic.publish(OutgoingMessage(payload=b"alone"))
    at_ms = PUBLISH_TIME_MS - 86_400_001
    member = OutgoingMessage(payload=b"second", key="k", properties={"a": "1", "b": ""}, event_time_ms=at_ms)
    topic.publish_batch([OutgoingMessage(payload=b"first"), member], Compression.ZSTD)

    alone, _, second = read("columns").orderBy("__sequenceId").collect()

    assert (bytes(alone.value), alone["__key"], alone["__eventTime"]) == (b"alone", None, None)
    assert (alone["__messageProperties"], alone["__batchIndex"], alone["__partition"]) == ({}, -1, -1)
    assert bytes(alone["__messageId"]) == MessageId(topic.ledger_id, 0).to_bytes()
    assert (bytes(second.value), bytes(second["__key"])) == (b"second", b"k")
    assert second["__messageProperties"] == {"a": "1", "b": ""}
    assert bytes(second["__messageId"]) == MessageId(topic.ledger_id, 1, -1, 1, 2).to_bytes()
    assert (second["__ledgerId"], second["__entryId"], second["__batchIndex"]) == (topic.ledger_id, 1, 1)
    assert (second["__producerName"], second["__sequenceId"]) == ("maker", 2)
    assert second["__topic"] == topic.name
    times = read("columns").selectExpr("unix_millis(__publishTime) p", "unix_millis(__eventTime) e").collect()
    assert {(row.p, row.e) for row in times} == {(PUBLISH_TIME_MS, None), (PUBLISH_TIME_MS, at_ms)}
    assert datetime.fromtimestamp(PUBLISH_TIME_MS / 1000, UTC).year == 2025


@pytest.mark.parametrize("partitions", ["1", "5", "64"])
def test_any_number_of_tasks_reads_each_message_once(read: Read, log_url: str, partitions: str) -> None:
    topic = create_topic(log_url, f"cut-{partitions}")
    fill(topic, seed=int(partitions), ledgers=3, entries=7)
    frame = read(topic.name, partitions=partitions, partitionBytes="1", batchRows="13")

    assert checksum_of_frame(frame) == topic.checksum
    assert 1 <= frame.rdd.getNumPartitions() <= min(int(partitions), 21)


def test_a_partitioned_topic_is_all_its_partitions(read: Read, log_url: str) -> None:
    topics = create_partitioned(log_url, "parted", 3)
    for topic in topics[:2]:
        topic.open_ledger(1)
        topic.publish_batch([OutgoingMessage(payload=b"%d" % index) for index in range(50)])

    frame = read("parted")

    assert checksum_of_frame(frame) == topics[0].checksum + topics[1].checksum
    ids = {MessageId.from_bytes(bytes(row[0])).partition for row in frame.select("__messageId").collect()}
    assert ids == {0, 1} == {row[0] for row in frame.select("__partition").distinct().collect()}
    assert read(topics[1].name).count() == 50


def test_an_empty_topic_has_no_rows(read: Read, log_url: str) -> None:
    create_topic(log_url, "empty").open_ledger(1)
    create_topic(log_url, "without-ledger")
    assert read("empty").count() == 0
    assert read("without-ledger").count() == 0


def test_the_end_of_a_read_can_be_given(read: Read, log_url: str) -> None:
    topic = create_topic(log_url, "ending")
    for _ in range(3):
        topic.open_ledger(1)
        for number in range(4):
            topic.publish(OutgoingMessage(payload=b"%d" % number))
    middle = topic.ledger_id - 1

    def until(end: str) -> DataFrame:
        return read("ending", endingOffsets=json.dumps({"ending": end}))

    assert until(f"{middle}:1").count() == 6
    assert until(f"{middle}:-1").count() == 4
    assert until(f"{middle}:99").count() == 8
    assert until("-1:-1").count() == 0
    assert f"beyond the last entry {topic.ledger_id}:3" in refused(until(f"{topic.ledger_id}:4").count)


def numbered(log_url: str, name: str) -> StoredTopic:
    """Make a topic of three ledgers with the messages 0 to 11, ten milliseconds apart; every third has a key."""
    topic = create_topic(log_url, name)
    for number in range(12):
        if number % 4 == 0:
            topic.open_ledger(1)
        topic.publish(
            OutgoingMessage(payload=b"%d" % number, key=None if number % 3 else "key"), Compression.ZSTD
        )
    return topic


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_a_read_can_start_and_end_anywhere(read: Read, log_url: str) -> None:
    topic = numbered(log_url, "anywhere")
    middle = topic.ledger_id - 1
    at_ms = [PUBLISH_TIME_MS + BETWEEN_APPENDS_MS * number for number in range(12)]

    def found(**options: str) -> list[int]:
        return numbers(read("anywhere", **options))

    assert found(startingOffsets=json.dumps({"anywhere": f"{middle}:1"})) == [6, 7, 8, 9, 10, 11]
    assert found(startingOffsets="latest") == []
    assert found(startingTime=str(at_ms[5]), endingTime=str(at_ms[9])) == [5, 6, 7, 8]
    begin = datetime.fromtimestamp((at_ms[10] - 1) / 1000, UTC).isoformat()
    assert found(startingTime=begin) == [10, 11]
    create_subscription(topic, "billing", last_acked=0)
    assert found(predefinedSubscription="billing") == [9, 10, 11]
    trim_first_ledger(topic)
    early = {"startingOffsets": json.dumps({"anywhere": f"{middle - 1}:1"})}
    assert "retention trims ledgers" in refused(read("anywhere", **early).count)
    assert found(failOnDataLoss="false", **early) == list(range(4, 12))
    assert "does not belong to" in refused(read("anywhere", startingOffsets='{"elsewhere": "5:7"}').count)


def test_a_frame_may_be_used_in_several_queries(read: Read, log_url: str) -> None:
    topic = numbered(log_url, "reused")
    frame = read("reused")
    assert numbers(frame.where("__key = cast('key' as binary)")) == [0, 3, 6, 9]
    topic.publish(OutgoingMessage(payload=b"12"))
    assert numbers(frame.where("__partition = 0 or __entryId = 3")) == [3, 7, 11]
    assert numbers(frame) == list(range(12)), "Spark plans a frame's read once"
    assert numbers(read("reused")) == list(range(13))


def test_filters_that_are_pushed_down_leave_out_nothing_that_is_wanted(
    spark: SparkSession, read: Read, log_url: str
) -> None:
    topic = numbered(log_url, "filtered")
    at = "timestamp_millis({})".format

    def found(condition: str) -> list[int]:
        return numbers(read("filtered", pushFilters="true").where(condition))

    with pytest.raises(PySparkException, match="filterPushdown"):
        found("__entryId = 1")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert found("__key = cast('key' as binary)") == [0, 3, 6, 9]
        assert found(f"__ledgerId = {topic.ledger_id - 1} and __entryId > 1") == [6, 7]
        between = f"__appendTime > {at(PUBLISH_TIME_MS + 30)} and __appendTime <= {at(PUBLISH_TIME_MS + 60)}"
        assert found(between) == [4, 5, 6]
        assert found(f"__publishTime = {at(PUBLISH_TIME_MS)}") == list(range(12))
        assert found(f"__publishTime > {at(PUBLISH_TIME_MS)}") == []
        assert found("__topic like '%elsewhere'") == []
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_schema_chooses_columns(spark: SparkSession, log_url: str) -> None:
    numbered(log_url, "chosen")
    reader = spark.read.format("vela").options(topic="chosen", url=log_url)
    frame = reader.schema("__entryId BIGINT, value BINARY").load()
    assert frame.columns == ["__entryId", "value"]
    assert numbers(frame) == list(range(12))
    assert "the schema has a column price" in refused(reader.schema("price INT").load().count)
    assert "column value as string: it is binary" in refused(reader.schema("value STRING").load().count)


def test_several_topics_are_one_frame(read: Read, log_url: str) -> None:
    for name in ("several-a", "several-b"):
        numbered(log_url, name)
    both = {"topics": "several-a, several-b"}
    reader = read("several-a").sparkSession.read.format("vela").option("url", log_url)
    assert reader.options(**both).load().count() == 24
    pattern = read("several-a").sparkSession.read.format("vela").option("url", log_url)
    assert pattern.option("topicsPattern", "several-.").load().count() == 24
    assert "there are no topics like persistent://public/default/nothing-.*" in refused(
        pattern.option("topicsPattern", "nothing-.*").load().count
    )


def test_the_fields_of_a_json_topic_are_columns(read: Read, log_url: str) -> None:
    topic = create_topic(log_url, "json")
    topic.open_ledger(1)
    topic.publish(OutgoingMessage(payload=b'{"article": "tea", "pieces": 3}'))
    with pytest.raises(SchemaUnusable, match="has no schema"):
        topic_schema(url=log_url, topic="json")
    fields = [{"name": "article", "type": ["null", "string"]}, {"name": "pieces", "type": "int"}]
    definition = json.dumps({"type": "record", "name": "Order", "fields": fields})
    with psycopg.connect(log_url) as connection:
        connection.execute(
            "INSERT INTO vela_schema (topic_name, version, type, name, data, properties, created_at)"
            " VALUES (%s, 0, 2, 'Order', %s, '{}', now())",
            (topic.name, definition.encode()),
        )
    frame = expand(read("json"), topic_schema(url=log_url, topic="json"))
    assert frame.columns[:3] == ["article", "pieces", "__key"]
    (row,) = frame.collect()
    assert (row.article, row.pieces, row["__entryId"]) == ("tea", 3, 0)


def test_the_fields_of_an_avro_topic_are_columns(read: Read, log_url: str) -> None:
    topic = create_topic(log_url, "avro")
    topic.open_ledger(1)
    article = {"name": "article", "type": "string", "default": "none"}
    pieces = {"name": "pieces", "type": "int"}
    with psycopg.connect(log_url) as connection:
        for version, fields in enumerate([[pieces], [article, pieces]]):
            definition = json.dumps({"type": "record", "name": "Order", "fields": fields})
            connection.execute(
                "INSERT INTO vela_schema (topic_name, version, type, name, data, properties, created_at)"
                " VALUES (%s, %s, 4, 'Order', %s, '{}', now())",
                (topic.name, version, definition.encode()),
            )
    for version, payload in enumerate([b"\x06", b"\x06tea\x0a"]):
        entry = encode_single(
            producer_name="maker",
            sequence_id=version,
            publish_time_ms=1,
            payload=payload,
            schema_version=version.to_bytes(8),
        )
        topic.store([entry], messages=1)
    schema = topic_schema(url=log_url, topic="avro")
    rows = expand(read("avro"), schema).select("article", "pieces", "__schemaVersion").collect()
    assert rows == [("none", 3, 0), ("tea", 5, 1)]
    older = expand(read("avro"), topic_schema(url=log_url, topic="avro", version=0))
    assert [row.pieces for row in older.collect()] == [3, 5]
    with pytest.raises(SchemaUnusable, match="needs __schemaVersion"):
        expand(read("avro").select("value"), schema)


def test_an_entry_that_cannot_be_decoded_fails_the_read_unless_it_may_be_skipped(
    spark: SparkSession, read: Read, log_url: str, tmp_path: Path
) -> None:
    topic = create_topic(log_url, "damaged")
    topic.open_ledger(1)
    for number in range(5):
        topic.publish(OutgoingMessage(payload=b"%d" % number))
    good = encode_single(producer_name="maker", sequence_id=9, publish_time_ms=1, payload=b"damaged")
    _, damaged = topic.store([good[:-1] + b"?"], messages=1)
    topic.publish(OutgoingMessage(payload=b"after"))

    sentence = refused(read("damaged").count)
    assert f"entry {topic.ledger_id}:{damaged} of {topic.name} cannot be read (ChecksumMismatch" in sentence
    assert "onCorrupt" in sentence
    assert checksum_of_frame(read("damaged", onCorrupt="skip")) == topic.checksum


def test_a_missing_entry_is_never_passed_over(read: Read, log_url: str) -> None:
    topic = create_topic(log_url, "holed")
    topic.open_ledger(1)
    for number in range(6):
        topic.publish(OutgoingMessage(payload=b"%d" % number))
    with psycopg.connect(log_url) as connection:
        connection.execute(
            "DELETE FROM vela_entry_1 WHERE ledger_id = %s AND entry_id = 3", (topic.ledger_id,)
        )

    assert f"entry {topic.ledger_id}:3 of {topic.name} existed when the read was planned" in refused(
        read("holed", onCorrupt="skip").count
    )


def test_wrong_requests_are_answered_with_one_sentence(spark: SparkSession, read: Read, log_url: str) -> None:
    reader = spark.read.format("vela")
    wrong_password = log_url.replace(log_url.split(":")[2].split("@")[0], "wrong-password")
    nowhere = "postgresql://vela:secret@127.0.0.1:1/vela"
    empty = log_url.rpartition("/")[0] + "/postgres"

    assert "option topic is missing" in refused(lambda: reader.option("url", log_url).load())
    assert "option partitions is '0'" in refused(lambda: read("orders", partitions="0"))
    assert "unknown option 'partition'" in refused(lambda: read("orders", partition="2"))
    assert "topic persistent://public/default/nowhere does not exist" in refused(read("nowhere").count)
    unreachable = refused(read("orders", url=nowhere).count)
    assert "cannot use the database in option url" in unreachable
    denied = refused(read("orders", url=wrong_password).count)
    assert "password authentication failed" in denied
    assert "secret" not in unreachable
    assert "wrong-password" not in denied
    assert "no views vela_read_v1" in refused(read("orders", url=empty).count)
