"""The job import: what was exported is published once, however often the job runs."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vela as client_of_vela
from pipeline.errors import PipelineError
from pipeline.jobs.files import MANIFEST
from pipeline.sink.stored_schemas import EncodedSchema
from tests.integration.pipeline.jobs import JobRunner
from tests.integration.pipeline.running import Broker, key_of
from vela.schema import AvroSchema, Integer, Record, String
from vela.wire.binary.schema import Schema as WireSchema
from vela.wire.topic_name import TopicName


class Order(Record):
    pieces = Integer()


class Larger(Record):
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


@pytest.mark.parametrize("format_", ["parquet", "ndjson", "csv"])
def test_a_copy_through_files_is_the_same(job: JobRunner, broker: Broker, format_: str) -> None:
    source, target = broker.topic(f"out-{format_}"), broker.topic(f"in-{format_}")
    broker.publish(source, range(500))
    job("export", source, to="files", format=format_)

    done = job("import", target, options={"from": "files"}, messages_per_s="1000000")
    again = job("import", target, options={"from": "files"}, messages_per_s="1000000")

    assert done["messages"] == again["messages"] == 500
    assert broker.checksum_of(target) == broker.checksum(range(500))
    assert broker.values(target) == [str(number) for number in range(500)]
    job("import", target, options={"from": "files", "import_id": "again"}, messages_per_s="1000000")
    assert len(broker.stored(target)) == 1000


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_copies_have_the_schema_of_their_originals(job: JobRunner, broker: Broker, format_: str) -> None:
    source, target = broker.topic(f"out-schema-{format_}"), broker.topic(f"in-schema-{format_}")
    broker.client.create_producer(source, schema=AvroSchema(Order)).send(Order(pieces=3))
    broker.client.create_producer(source, schema=AvroSchema(Larger)).send(Larger(article="tea", pieces=4))
    broker.client.create_producer(source).send(b"without")
    job("export", source, to="schemas", format=format_)

    for _ in range(2):
        job("import", target, options={"from": "schemas"})

    assert [message.int_schema_version() for message in broker.stored(target)] == [0, 1, -1]
    consumer = broker.client.subscribe(
        target, "s", schema=AvroSchema(Larger), initial_position=client_of_vela.InitialPosition.Earliest
    )
    values = [consumer.receive(10_000).value() for _ in range(2)]
    assert [(each.article, each.pieces) for each in values] == [("none", 3), ("tea", 4)]
    consumer.close()


def test_copies_of_pairs_have_the_schema_of_key_and_value(job: JobRunner, broker: Broker) -> None:
    source, target = broker.topic("out-pairs"), broker.topic("in-pairs")
    pairs = EncodedSchema(
        WireSchema(
            name="pairs",
            type=15,
            data=b"\0\0\0\0\0\0\0\0",
            properties={
                "key.schema.type": "STRING",
                "value.schema.type": "INT32",
                "kv.encoding.type": "INLINE",
            },
        )
    )
    broker.client.create_producer(source, schema=pairs).send(b"\0\0\0\1k\0\0\0\4\0\0\0\7")
    job("export", source, to="pairs")
    job("import", target, options={"from": "pairs"})
    (copy,) = broker.stored(target)
    assert copy.int_schema_version() == 0
    with psycopg.connect(broker.process.database_url) as connection:
        found = connection.execute(
            "SELECT type, data, properties FROM vela_read_v1.schemas WHERE topic_name = ANY(%s)",
            ([TopicName.parse(each).full for each in (source, target)],),
        ).fetchall()
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_missing_or_changed_file_publishes_nothing(job: JobRunner, broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic("out-changed"), broker.topic("in-changed")
    broker.publish(source, range(30))
    job("export", source, to="changed", format="ndjson")
    (file,) = (tmp_path / "changed").glob("*.json")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))

    with pytest.raises(PipelineError, match=f"has 29 messages .*, but {MANIFEST} in it says 30"):
        job("import", target, options={"from": "changed"})
    for damaged in ("{", "[]", "{}", '{"checksum": "", "messages": 0, "schemas": []}'):
        (tmp_path / "changed" / MANIFEST).write_text(damaged)
        with pytest.raises(PipelineError, match=f"{MANIFEST} is damaged, and nothing was published"):
            job("import", target, options={"from": "changed"})
    (tmp_path / "changed" / MANIFEST).unlink()
    file.write_text("".join(lines) + '{"value": "half')
    with pytest.raises(PipelineError, match="cannot be read as ndjson, and nothing was published"):
        job("import", target, options={"from": "changed"})
    assert broker.stored(target) == []
    with pytest.raises(PipelineError, match="does not exist: name a folder or a file"):
        job("import", target, options={"from": "nowhere"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(PipelineError, match="files of 0 formats"):
        job("import", target, options={"from": "empty"})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", 'value,properties\na,"{""p"": ""1""}"\nb,not json\n', "Malformed"),
        ("a.json", '{"value": "a"}\n{"value": "b", "properties": {"p": null}}\n', "the property 'p'"),
        ("a.json", '{"value": "a"}\n{"value": "b", "eventTime": "1960-01-01"}\n', "before 1970"),
        ("a.json", '{"text": "a"}\n{"text": "b"}\n', "has no column value"),
    ],
)
def test_a_row_that_is_no_message_publishes_nothing(
    job: JobRunner, broker: Broker, tmp_path: Path, name: str, content: str, said: str
) -> None:
    target = broker.topic("in-no-message")
    (tmp_path / name).write_text(content)
    with pytest.raises(PipelineError, match=said):
        job("import", target, options={"from": name})
    assert broker.stored(target) == []


def test_empty_properties_in_a_table_are_none(job: JobRunner, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("value,properties\na,\nb,\\N\nc,{}\n")
    target = broker.topic("in-empty-properties")
    assert job("import", target, options={"from": "own.csv"}, messages_per_s="1000000")["messages"] == 3
    assert [message.properties() for message in broker.stored(target)] == [{}, {}, {}]


def test_nothing_outside_of_the_folder_is_read(
    job: JobRunner, broker: Broker, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.json").write_text('{"value": "secret"}\n')
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "one.json").symlink_to(outside / "secret.json")
    target = broker.topic("in-outside")
    for name in ("link", "link/secret.json", "mixed", "mixed/one.json"):
        with pytest.raises(PipelineError, match="outside of"):
            job("import", target, options={"from": name})
    assert broker.stored(target) == []


def test_a_folder_that_is_named_like_a_file_is_left_out(
    job: JobRunner, broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "both" / "z.json").mkdir(parents=True)
    (tmp_path / "both" / "z.json" / "inner.json").write_text('{"value": "b"}\n')
    (tmp_path / "both" / "a.json").write_text('{"value": "a"}\n')
    target = broker.topic("in-both")
    done = job("import", target, options={"from": "both"})
    assert (done["files"], done["messages"], len(broker.stored(target))) == (1, 1, 1)


def test_a_topic_that_does_not_deduplicate_is_refused(job: JobRunner, broker: Broker, tmp_path: Path) -> None:
    target = broker.topic("public/plain/in")
    (tmp_path / "one.json").write_text('{"value": "a"}\n')
    with pytest.raises(PipelineError, match="does not deduplicate"):
        job("import", target, options={"from": "one.json"})
    assert broker.stored(target) == []


def test_files_of_your_own_need_only_values(job: JobRunner, broker: Broker, tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": ["a", "b"]}), tmp_path / "own.parquet")
    (tmp_path / "own.csv").write_text('value,key\r\n"a, b",k\r\n\\N,\\N\r\n')
    target = broker.topic("in-own")
    job("import", target, options={"from": "own.parquet"}, messages_per_s="1000000")
    job("import", target, options={"from": "own.csv"}, messages_per_s="1000000")
    (tmp_path / "wrong.csv").write_text("text,key\na,k\n")
    with pytest.raises(PipelineError, match="has no column value"):
        job("import", target, options={"from": "wrong.csv"})
    found = [(message.value(), key_of(message)) for message in broker.stored(target)]
    assert found == [(b"a", None), (b"b", None), (b"a, b", b"k"), (None, None)]
