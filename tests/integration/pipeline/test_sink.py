"""`df.write` and `df.writeStream` with format vela, against a running Vela."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import vela as client_of_vela
from pipeline.checksum import Checksum, checksum_of_frame, message_digest
from pipeline.errors import sentence_of
from tests.integration.pipeline.running import Broker
from tests.support.waiting import wait_until


def refused(action: Callable[[], object]) -> str:
    with pytest.raises((PySparkException, StreamingQueryException)) as caught:
        action()
    sentence = sentence_of(caught.value)
    assert sentence is not None, str(caught.value)
    return sentence


def write(frame: DataFrame, broker: Broker, **options: str) -> None:
    options = {"serviceUrl": broker.process.pulsar_url, **options}
    frame.write.format("vela").mode("append").options(**options).save()


def test_messages_are_read_as_they_were_written(broker: Broker) -> None:
    topic = broker.topic("public/parts/written")
    frame = broker.spark.range(1000).select(
        sf.col("id").cast("string").alias("value"),
        sf.when(sf.col("id") % 3 == 0, sf.concat(sf.lit("kü"), sf.col("id") % 10)).alias("__key"),
        sf.timestamp_millis(sf.lit(1_760_000_000_123) + sf.col("id")).alias("__eventTime"),
        sf.when(sf.col("id") % 2 == 0, sf.create_map(sf.lit("a"), sf.col("id").cast("string"))).alias(
            "__messageProperties"
        ),
    )
    write(frame, broker, topic=topic, batchRows="70", compression="zstd", writeId="first")
    # This write stores nothing new.
    write(frame, broker, topic=topic, batchRows="33", compression="none", writeId="first")

    expected = Checksum.of_digests(
        message_digest(
            b"%d" % number,
            f"kü{number % 10}".encode() if number % 3 == 0 else None,
            {"a": str(number)} if number % 2 == 0 else {},
            1_760_000_000_123 + number,
        )
        for number in range(1000)
    )
    stored = broker.read(topic)
    assert checksum_of_frame(stored) == expected
    homes = (
        stored.where("__key is not null").groupBy("__key").agg(sf.count_distinct("__partition").alias("n"))
    )
    assert {row.n for row in homes.collect()} == {1}
    assert {row[0] for row in stored.select("__partition").distinct().collect()} == {0, 1, 2}
    reader = broker.client.create_reader(f"{topic}-partition-0", client_of_vela.MessageId.earliest)
    assert reader.read_next(timeout_millis=10_000).event_timestamp() >= 1_760_000_000_123
    reader.close()


def test_rows_choose_their_topic(broker: Broker) -> None:
    frame = broker.spark.range(10).select(
        sf.to_binary(sf.col("id").cast("string"), sf.lit("utf-8")).alias("value"),
        sf.concat(sf.lit("public/plain/chosen-"), sf.col("id") % 2).alias("__topic"),
    )
    write(frame, broker)
    assert sorted(map(int, broker.values("public/plain/chosen-1"))) == [1, 3, 5, 7, 9]
    deleted = broker.spark.sql(
        "select cast(null as binary) value, 'k' __key, timestamp'2020-01-01' __eventTime"
    )
    write(deleted, broker, topic="public/plain/chosen-0")
    (row,) = broker.read("public/plain/chosen-0").where("__key = cast('k' as binary)").collect()
    assert row.value is None
    assert row["__eventTime"].astimezone(UTC) == datetime(2020, 1, 1, tzinfo=UTC)


def test_keys_that_are_not_text_stay_the_same(broker: Broker) -> None:
    topic = broker.topic("public/parts/binary-keys")
    write(
        broker.spark.sql("select string(id) value, unhex('ff0' || id % 4) __key from range(40)"),
        broker,
        topic=topic,
    )
    stored = broker.read(topic).selectExpr("hex(__key) key", "__partition").distinct().collect()
    assert sorted(row.key for row in stored) == ["FF00", "FF01", "FF02", "FF03"]


def test_a_write_that_cannot_be_done_says_why(broker: Broker) -> None:
    topic = broker.topic("public/plain/refusing")
    spark = broker.spark
    rows = spark.range(3).select(sf.col("id").cast("string").alias("value"))

    def save(frame: DataFrame, **options: str) -> Callable[[], None]:
        return lambda: write(frame, broker, **options)

    assert "no topic to write to" in refused(save(rows))
    assert "so it was read from topics" in refused(save(broker.read(topic)))
    assert "unknown option 'topics'" in refused(save(rows, topics="a"))
    assert "a column id, which messages do not have" in refused(save(spark.range(3), topic=topic))
    assert "column value has type int" in refused(save(spark.sql("select 1 value"), topic=topic))
    assert "several columns value" in refused(save(spark.sql("select 'a' value, 'b' value"), topic=topic))
    assert "row 0 has no value for the property 'p'" in refused(
        save(spark.sql("select 'a' value, map('p', cast(null as string)) __messageProperties"), topic=topic)
    )
    assert f"cannot write to {topic}" in refused(
        save(rows, topic=topic, serviceUrl="pulsar://127.0.0.1:1", sendTimeoutMs="1000")
    )
    assert "does not deduplicate" in refused(save(rows, topic=topic, exactlyOnce="true"))
    assert broker.stored(topic) == []
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        rows.write.format("vela").mode("overwrite").options(
            serviceUrl=broker.process.pulsar_url, topic=topic
        ).save()


def test_a_row_that_is_too_large_leaves_no_gap(broker: Broker) -> None:
    topic = broker.topic("too-large")

    def save(large_bytes: int) -> None:
        number = sf.col("id").cast("string")
        value = sf.when(sf.col("id") == 15, sf.repeat(sf.lit("1"), large_bytes)).otherwise(number)
        frame = broker.spark.range(0, 40, 1, 1).select(value.alias("value"))
        write(frame, broker, topic=topic, batchRows="10", writeId="w")

    said = refused(lambda: save(6 << 20))
    assert ("is above the broker's limit" in said, "raise the broker's VELA_MAX_MESSAGE_BYTES" in said) == (
        True,
        True,
    )
    assert sorted(map(int, broker.values(topic))) == list(range(15)), "nothing after the large row"
    save(1)
    assert len(broker.stored(topic)) == 40


def copy(
    broker: Broker, source: str, target: str, folder: Path, *, broken_at: int = -1, available_now: bool = True
) -> object:
    """Start a query that copies a topic and fails at message number `broken_at`."""
    properties = sf.when(
        sf.col("value").cast("string") == str(broken_at),
        sf.create_map(sf.lit("p"), sf.lit(None).cast("string")),
    ).otherwise(sf.col("__messageProperties"))
    writer = (
        broker.spark.readStream.format("vela")
        .options(
            topic=source,
            url=broker.process.database_url,
            startingOffsets="earliest",
            maxRowsPerTrigger="40",
            partitionBytes="1",
            partitions="2",
        )
        .load()
        .withColumn("__messageProperties", properties)
        .writeStream.format("vela")
        .options(serviceUrl=broker.process.pulsar_url, topic=target, batchRows="10")
        .option("checkpointLocation", str(folder))
    )
    return (
        writer.trigger(availableNow=True)
        if available_now
        else writer.trigger(processingTime="200 milliseconds")
    ).start()


def test_a_micro_batch_that_is_repeated_stores_nothing_twice(broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic("repeat-from"), broker.topic("public/parts/repeat-to")
    broker.publish(source, range(100))

    query = copy(broker, source, target, tmp_path, broken_at=78)
    assert "no value for the property 'p'" in refused(query.awaitTermination)  # type: ignore[attr-defined]
    # Spark stops the other task of the second micro-batch, so it is up to chance how many of its rows are stored.
    assert 40 <= len(broker.stored(target)) < 80, "the second micro-batch must not be complete"

    copy(broker, source, target, tmp_path).awaitTermination()  # type: ignore[attr-defined]
    assert broker.checksum_of(target) == broker.checksum(range(100))
    copy(broker, source, target, tmp_path).awaitTermination()  # type: ignore[attr-defined]
    assert len(broker.stored(target)) == 100


def test_a_stream_copies_while_producers_publish(broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic("public/parts/live-from"), broker.topic("live-to")
    query = copy(broker, source, target, tmp_path, available_now=False)
    producers = [
        threading.Thread(target=broker.publish, args=(source, range(first, first + 150)))
        for first in (0, 150)
    ]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    wait_until(lambda: len(broker.stored(target)) >= 300, "300 copies", timeout_s=60, every_s=0.2)
    query.stop()  # type: ignore[attr-defined]
    assert broker.checksum_of(target) == broker.checksum(range(300))


def test_a_stream_needs_a_topic_that_deduplicates(broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic("plain-from"), broker.topic("public/plain/plain-to")
    broker.publish(source, range(20))
    query = copy(broker, source, target, tmp_path)
    sentence = refused(query.awaitTermination)  # type: ignore[attr-defined]
    assert f"{target} does not deduplicate" in sentence
