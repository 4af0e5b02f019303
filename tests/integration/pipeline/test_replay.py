"""The job replay: which messages a condition chooses, what is published, and what is never published twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import vela as client_of_vela
from pipeline.errors import DataLost, InvalidOption, PipelineError
from tests.integration.pipeline.jobs import JobRunner
from tests.integration.pipeline.publishing import create_topic, trim_first_ledger
from tests.integration.pipeline.running import Broker
from vela.schema import AvroSchema, Integer, JsonSchema, Record, String
from vela.wire.entry import OutgoingMessage


class Order(Record):
    pieces = Integer()


class LargerOrder(Record):
    article = String(default="none", required_default=True)
    pieces = Integer()


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> JobRunner:
    return JobRunner(
        url=broker.process.database_url,
        service_url=broker.process.pulsar_url,
        folder=tmp_path,
        spark=lambda: broker.spark,
    )


@pytest.fixture(scope="module")
def orders(broker: Broker) -> str:
    """A topic with twenty orders as JSON, followed by one message that is not JSON."""
    topic = broker.topic("replay-orders")
    producer = broker.client.create_producer(topic)
    for number in range(20):
        producer.send(
            b'{"pieces": %d, "article": "a%d"}' % (number, number % 2),
            {"shop": f"s{number % 4}"},
            partition_key=f"k{number % 5}",
        )
    producer.send(b"\xff no JSON")
    producer.close()
    return topic


@pytest.mark.parametrize(
    ("where", "messages", "unreadable"),
    [
        ("", 21, 0),
        ("value:pieces::int >= 15", 5, 1),
        ("key = 'k1' AND properties['shop'] = 's1'", 1, 0),
        ("text LIKE '%a1%' OR value IS NULL", 11, 1),
        ("publish_time < '2020-01-01'", 0, 0),
        ("size > 1000 or exists(array(1, 2), x -> x > 1)", 21, 0),
    ],
)
def test_a_preview_counts_messages_and_shows_samples(
    job: JobRunner, orders: str, where: str, messages: int, unreadable: int
) -> None:
    found = job("replay", orders, to="replay-nowhere", where=where)
    assert (found["messages"], found["unreadable"], found["is_preview"]) == (messages, unreadable, True)
    assert len(found["samples"]) == min(20, messages)
    assert "nothing was published" in found["words"]
    assert found["words"].endswith("do not fit the topic's schema: 1") == bool(unreadable)


def test_payloads_that_do_not_fit_the_schema_are_counted(job: JobRunner, broker: Broker) -> None:
    topic = broker.topic("replay-typed")
    broker.client.create_producer(topic, schema=JsonSchema(Order)).send(Order(pieces=3))
    producer = broker.client.create_producer(topic)
    for payload in (b'{"pieces": 5}', b'{"pieces": "many"}', b'{"pieces": 7', b""):
        producer.send(payload)
    found = job("replay", topic, to="replay-nowhere", where="value.pieces > 2")
    assert (found["messages"], found["unreadable"]) == (2, 2)


def test_a_condition_reads_avro_payloads_of_all_versions(job: JobRunner, broker: Broker) -> None:
    topic = broker.topic("replay-avro")
    broker.client.create_producer(topic, schema=AvroSchema(Order)).send(Order(pieces=3))
    broker.client.create_producer(topic, schema=AvroSchema(LargerOrder)).send(
        LargerOrder(article="tea", pieces=5)
    )
    producer = broker.client.create_producer(topic)
    for payload in (b"\xff no Avro", b""):
        producer.send(payload)
    found = job("replay", topic, to="replay-nowhere", where="value.pieces > 2")
    assert (found["messages"], found["unreadable"]) == (2, 1)
    found = job("replay", topic, to="replay-nowhere", where="value.article = 'tea' AND value.pieces = 5")
    assert found["messages"] == 1


def test_a_field_written_in_the_wrong_way_is_explained(job: JobRunner, broker: Broker, orders: str) -> None:
    topic = broker.topic("replay-hints")
    broker.client.create_producer(topic, schema=JsonSchema(Order)).send(Order(pieces=3))
    with pytest.raises(InvalidOption, match=r"write a field as value\.pieces: its fields are pieces"):
        job("replay", topic, to="replay-nowhere", where="value:pieces::int > 2")
    with pytest.raises(InvalidOption, match="no schema, so write a field with its type: value:pieces::int"):
        job("replay", orders, to="replay-nowhere", where="value:pieces > 2")


def test_messages_come_once_in_order_with_their_history(job: JobRunner, broker: Broker, orders: str) -> None:
    target = broker.topic("replay-target")
    given: dict[str, Any] = {"to": target, "where": "value:pieces::int < 10", "preview": "false"}

    done = job("replay", orders, write_id="run-1", **given)

    assert f"10 messages of {orders} fit and are in {target};" in done["words"]
    assert broker.values(target) == [f'{{"pieces": {n}, "article": "a{n % 2}"}}' for n in range(10)]
    properties = broker.stored(target)[0].properties()
    assert (properties["shop"], properties["REPLAYED_TIMES"]) == ("s0", "1")
    assert properties["REPLAYED_FROM"].startswith(f"{orders} ")

    # The source gets new messages before the run continues. The run does not see them, and repeats nothing.
    producer = broker.client.create_producer(orders)
    producer.send(b'{"pieces": 1, "article": "late"}')
    producer.close()
    pinned = dict(job.recorder.pinned)
    assert pinned.keys() == {"startingOffsets", "endingOffsets"}
    job("replay", orders, write_id="run-1", pinned=pinned, **given)
    assert len(broker.values(target)) == 10
    job("replay", orders, write_id="run-2", **given)
    assert len(broker.values(target)) == 21


def test_copies_have_the_schema_of_their_originals(job: JobRunner, broker: Broker) -> None:
    topic, target = broker.topic("replay-versions"), broker.topic("replay-versions-copy")
    small, large = AvroSchema(Order), AvroSchema(LargerOrder)
    broker.client.create_producer(topic, schema=small).send(Order(pieces=0))
    broker.client.create_producer(topic, schema=large).send(LargerOrder(article="tea", pieces=1))
    broker.client.create_producer(topic, schema=small).send(Order(pieces=2))
    broker.client.create_producer(topic).send(b"without")

    job("replay", topic, to=topic, preview="false")
    job("replay", topic, to=target, where="value.pieces IN (0, 1)", preview="false")

    versions = [message.int_schema_version() for message in broker.stored(topic)]
    assert versions == [0, 1, 0, -1, 0, 1, 0, -1]
    consumer = broker.client.subscribe(
        target, "s", schema=large, initial_position=client_of_vela.InitialPosition.Earliest
    )
    values = [consumer.receive(10_000).value() for _ in range(2)]
    assert [(each.article, each.pieces) for each in values] == [("none", 0), ("tea", 1)]
    consumer.close()


def test_a_topic_that_refuses_the_schema_gets_no_message(job: JobRunner, broker: Broker) -> None:
    topic, target = broker.topic("replay-avro-only"), broker.topic("replay-json-only")
    broker.client.create_producer(topic, schema=AvroSchema(Order)).send(Order(pieces=3))
    broker.client.create_producer(target, schema=JsonSchema(Order)).close()
    with pytest.raises(PipelineError, match=f"cannot write to {target}: IncompatibleSchema"):
        job("replay", topic, to=target, preview="false")
    assert broker.stored(target) == []


def test_replayed_messages_are_not_replayed_again(job: JobRunner, broker: Broker) -> None:
    topic = broker.topic("replay-itself")
    broker.publish(topic, range(5))
    for write_id, found in (("loop-1", 5), ("loop-2", 5), ("loop-3", 5)):
        done = job("replay", topic, write_id=write_id, to=topic, preview="false")
        assert done["messages"] == found
    assert done["left_out"] == 10
    assert len(broker.values(topic)) == 20
    done = job("replay", topic, to=topic, max_replays="3", where="properties['REPLAYED_TIMES'] = '1'")
    assert (done["messages"], done["left_out"]) == (15, 0)


def test_one_message_is_counted_as_one(job: JobRunner, broker: Broker) -> None:
    topic, target = broker.topic("replay-one"), broker.topic("replay-one-copy")
    broker.client.create_producer(topic).send(b"x")
    done = job("replay", topic, to=target, preview="false")
    assert done["words"] == f"1 message of {topic} fits and is in {target}"


def test_more_than_the_limit_publishes_nothing(job: JobRunner, broker: Broker, orders: str) -> None:
    target = broker.topic("replay-limited")
    with pytest.raises(InvalidOption, match="more than limit = 3, and nothing was published"):
        job("replay", orders, to=target, limit="3", preview="false")
    assert broker.values(target) == []
    preview = job("replay", orders, to=target, limit="3")
    assert "limit = 3, so a run would publish none" in preview["words"]


@pytest.mark.parametrize("stated", ["-5", "many", "99999999999"])
def test_a_count_that_a_publisher_made_up_is_not_believed(
    job: JobRunner, broker: Broker, stated: str
) -> None:
    topic, target = broker.topic(f"replay-stated-{stated}"), broker.topic(f"replay-counted-{stated}")
    broker.client.create_producer(topic).send(b"x", {"REPLAYED_TIMES": stated})
    job("replay", topic, to=target, preview="false")
    assert broker.stored(target)[0].properties()["REPLAYED_TIMES"] == "1"


def test_a_replay_is_no_faster_than_its_rate(job: JobRunner, broker: Broker, orders: str) -> None:
    target = broker.topic("replay-slow")
    began_s = time.monotonic()
    job("replay", orders, to=target, messages_per_s="10", where="value:pieces::int < 20", preview="false")
    assert time.monotonic() - began_s >= 1.9
    assert len(broker.values(target)) >= 20


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("value:pieces::int >", "is not an SQL condition"),
        ("nothing = 1", "has no column nothing: the columns are value, text, key"),
        ("size", "FILTER_NOT_BOOLEAN"),
        ("reflect('java.lang.Runtime', 'getRuntime') IS NULL", "uses the function reflect"),
        ("java_method('java.lang.System', 'exit', 1) = 1", "uses the function java_method"),
        ("key IN (SELECT value FROM text.`/etc/passwd`)", "only the columns of one message"),
        ("EXISTS (SELECT 1)", "only the columns of one message"),
        ("(SELECT 1) = 1", "only the columns of one message"),
        ("IDENTIFIER('reflect')('java.lang.System', 'gc') = 1", "option where"),
        ("publish_time < current_timestamp()", "uses the function current_timestamp"),
        ("rand() < 0.5", "uses the function rand"),
        ("current_user = 'root'", "has no column current_user"),
        ("1 = 1; DROP TABLE x", "is not an SQL condition"),
    ],
)
def test_a_wrong_or_dangerous_condition_is_refused(
    where: str, says: str, job: JobRunner, orders: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        job("replay", orders, to="replay-nowhere", where=where)
    assert says in str(caught.value)


def test_a_condition_sees_neither_the_environment_nor_settings(job: JobRunner, orders: str) -> None:
    everything = job("replay", orders, to="replay-nowhere", where="true")["messages"]
    for name in ("env:PATH", "system:java.version", "spark.app.name"):
        found = job("replay", orders, to="replay-nowhere", where=f"'${{{name}}}' = concat('$', '{{{name}}}')")
        assert found["messages"] == everything, name


def test_a_condition_that_fails_on_a_message_says_so(job: JobRunner, orders: str) -> None:
    with pytest.raises(PipelineError, match=r"option where fails on a message: .*try_cast give null"):
        job("replay", orders, to="replay-nowhere", where="CAST(text AS int) > 3")


def test_an_address_that_is_not_the_brokers_is_named(job: JobRunner, broker: Broker, orders: str) -> None:
    """The error comes at once. For a broker that is away, a job waits half a minute, as test_sink.py shows."""
    job.service_url = broker.process.http_url.replace("http://", "pulsar://")
    with pytest.raises(PipelineError, match=r"cannot write to .*replay-nowhere: .*that is HTTP"):
        job("replay", orders, to="replay-nowhere", preview="false")


def test_a_run_whose_messages_were_trimmed_cannot_be_continued(log_url: str, tmp_path: Path) -> None:
    topic = create_topic(log_url, "trimmed-range")
    for _ in range(2):
        topic.open_ledger(1)
        topic.publish_batch([OutgoingMessage(payload=b"x")] * 4)

    def no_spark() -> SparkSession:
        raise InvalidOption("Spark was started")

    job = JobRunner(url=log_url, folder=tmp_path, spark=no_spark)
    given = {"to": "elsewhere", "preview": "false"}
    with pytest.raises(InvalidOption, match="Spark was started"):
        job("replay", "trimmed-range", options=given)
    trim_first_ledger(topic)
    with pytest.raises(DataLost, match=r"retention trimmed 4 messages after it; start a new run"):
        job("replay", "trimmed-range", options=given, pinned=dict(job.recorder.pinned))
