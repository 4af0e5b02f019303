"""`spark.readStream.format("vela")`: what it reads equals what was published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pipeline.checksum import Checksum, checksum_of_frame
from pipeline.errors import DataLost, TopicNotFound, sentence_of
from pipeline.source.options import ReadOptions
from pipeline.source.stream_reader import StreamReader
from tests.integration.pipeline.publishing import (
    StoredTopic,
    create_partitioned,
    create_subscription,
    create_topic,
    trim_first_ledger,
)
from vela.wire.entry import OutgoingMessage

Progress = list[dict[str, Any]]


class Stream:
    """A streaming query that writes the messages stored so far to Parquet, and ends."""

    def __init__(self, spark: SparkSession, folder: Path, **options: str) -> None:
        self._spark = spark
        self._folder = folder
        self._options = options

    def run(self, **more: str) -> Progress:
        """Run from the checkpoint to the current end, and return the micro-batches that had rows."""
        query = (
            self._spark.readStream.format("vela")
            .options(**{**self._options, **more})
            .load()
            .writeStream.format("parquet")
            .option("path", str(self._folder / "rows"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    @property
    def checksum(self) -> Checksum:
        """Return the checksum of all rows written so far."""
        return checksum_of_frame(self._spark.read.parquet(str(self._folder / "rows")))


@pytest.fixture
def stream(spark: SparkSession, log_url: str, tmp_path: Path) -> Callable[..., Stream]:
    def make(**options: str) -> Stream:
        return Stream(spark, tmp_path, url=log_url, **options)

    return make


def fill(topic: StoredTopic, entries: int, *, size: int = 3) -> None:
    for _ in range(entries):
        topic.publish_batch([OutgoingMessage(payload=b"%d" % number) for number in range(size)])


def refused(run: Callable[[], object]) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        run()
    sentence = sentence_of(caught.value)
    assert sentence is not None, str(caught.value)
    return sentence


def test_a_stream_goes_on_from_its_checkpoint(stream: Callable[..., Stream], log_url: str) -> None:
    first, second = create_partitioned(log_url, "going-on", 2)
    for topic in (first, second):
        topic.open_ledger(1)
    fill(first, 12)
    fill(second, 4)
    reader = stream(topic="going-on", startingOffsets="earliest", maxRowsPerTrigger="24")

    batches = reader.run()
    assert [batch["numInputRows"] for batch in batches] == [24, 24]
    assert reader.checksum == first.checksum + second.checksum
    end = json.loads(batches[-1]["sources"][0]["endOffset"])
    assert end[second.name] == {"last": f"{second.ledger_id}:3", "messages": 12}

    assert reader.run() == []
    first.open_ledger(1)
    fill(first, 2)
    fill(second, 1)
    assert sum(batch["numInputRows"] for batch in reader.run()) == 9
    assert reader.checksum == first.checksum + second.checksum


def test_new_topics_are_read_from_their_beginning(stream: Callable[..., Stream], log_url: str) -> None:
    old = create_topic(log_url, "fresh-old")
    old.open_ledger(1)
    fill(old, 2)
    reader = stream(topicsPattern="fresh-.*", maxEntriesPerTrigger="1")
    assert reader.run() == []  # the default is latest
    young = create_topic(log_url, "fresh-young")
    young.open_ledger(1)
    fill(young, 3)
    assert [batch["numInputRows"] for batch in reader.run()] == [3, 3, 3]
    assert reader.checksum == young.checksum


def test_trimmed_messages_end_a_stream_unless_it_may_lose_them(
    stream: Callable[..., Stream], log_url: str
) -> None:
    topic = create_topic(log_url, "trimmed")
    topic.open_ledger(1)
    fill(topic, 2)
    reader = stream(topic="trimmed", startingOffsets="earliest")
    reader.run()
    read = topic.checksum
    fill(topic, 4)
    topic.expected.clear()
    topic.open_ledger(1)
    fill(topic, 1)
    trim_first_ledger(topic)

    sentence = refused(reader.run)
    assert "retention trimmed 12 messages after it" in sentence
    assert "failOnDataLoss" in sentence
    reader.run(failOnDataLoss="false")
    assert reader.checksum == read + topic.checksum


def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(
    stream: Callable[..., Stream], log_url: str
) -> None:
    topic = create_topic(log_url, "again")
    topic.open_ledger(1)
    fill(topic, 2)
    reader = stream(topic="again", startingOffsets="earliest")
    reader.run()
    read = topic.checksum
    delete(topic)
    assert "does not exist" in refused(reader.run)
    young = create_topic(log_url, "again")
    young.open_ledger(1)
    fill(young, 1)

    assert "deleted and created again" in refused(reader.run)
    reader.run(failOnDataLoss="false")
    assert reader.checksum == read + young.checksum


def delete(topic: StoredTopic) -> None:
    with psycopg.connect(topic.url) as connection:
        connection.execute("DELETE FROM vela_ledger WHERE topic_id = %s", (topic.topic_id,))
        connection.execute("DELETE FROM vela_topic WHERE id = %s", (topic.topic_id,))


def test_deleted_topics_are_never_left_out_silently(log_url: str) -> None:
    kept, lost = create_topic(log_url, "gone-kept"), create_topic(log_url, "gone-lost")
    for topic in (kept, lost):
        topic.open_ledger(1)
        fill(topic, 2)

    def reader(**options: str) -> StreamReader:
        return StreamReader(ReadOptions.parse({"url": log_url, **options}), ("value",))

    both = {"topics": "gone-kept,gone-lost"}
    end = reader(**both).reportLatestOffset()
    start = {kept.name: end[kept.name]}  # the other topic is new in this micro-batch
    assert len(reader(**both).partitions(start, end)) == 1
    with pytest.raises(DataLost, match="gone-lost was read before and is not in the query's options now"):
        reader(topic="gone-kept").latestOffset(end, ReadAllAvailable())

    delete(lost)
    pattern = {"topicsPattern": "gone-.*"}
    with pytest.raises(DataLost, match="gone-lost was read before and does not exist now"):
        reader(**pattern).partitions(start, end)
    with pytest.raises(TopicNotFound, match="gone-lost does not exist"):
        reader(**both).latestOffset(end, ReadAllAvailable())
    for options in (pattern, both):
        lenient = reader(**options, failOnDataLoss="false")
        lenient.prepareForTriggerAvailableNow()
        assert lenient.partitions(start, end) == []
        assert lenient.latestOffset(end, ReadAllAvailable()) == start


def test_a_stream_starts_at_a_subscriptions_cursor(stream: Callable[..., Stream], log_url: str) -> None:
    topic = create_topic(log_url, "cursor")
    topic.open_ledger(1)
    fill(topic, 5)
    create_subscription(topic, "billing", last_acked=2)
    reader = stream(topic="cursor")
    assert "has no subscription 'mail'" in refused(lambda: reader.run(predefinedSubscription="mail"))
    assert [batch["numInputRows"] for batch in reader.run(predefinedSubscription="billing")] == [6]


def test_options_for_batch_reads_are_refused_by_a_stream(stream: Callable[..., Stream], log_url: str) -> None:
    create_topic(log_url, "no-end")
    assert "option endingOffsets is for batch reads" in refused(
        stream(topic="no-end", endingOffsets="latest").run
    )
