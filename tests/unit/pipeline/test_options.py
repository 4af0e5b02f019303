"""Options of a read: names, offsets, topics and times."""

from __future__ import annotations

import pytest

from pipeline.errors import InvalidOption, sentence_of
from pipeline.option_values import full_topic_name
from pipeline.source.offsets import AskedOffsets, Offset
from pipeline.source.options import Limits, ReadOptions, TopicsPattern

URL = "postgresql://vela:secret@127.0.0.1:5432/vela"


def test_names_ignore_case_and_the_rest_has_defaults() -> None:
    options = ReadOptions.parse({"TOPIC": "orders", "url": URL, "oncorrupt": "SKIP"})
    assert options.topics == ("persistent://public/default/orders",)
    assert (options.partitions, options.batch_rows, options.skip_corrupt) == (16, 10_000, True)
    assert (options.starting, options.ending, options.fail_on_data_loss) == (None, None, True)
    assert not options.limits.is_set


def test_offsets_name_topics_and_their_last_entries() -> None:
    ending = '{"orders": "5:7", "persistent://a/b/c": "-1:-1", "d": "earliest", "e": {"last": "1:2", "messages": 9}}'
    options = ReadOptions.parse({"topic": "orders", "url": URL, "endingOffsets": ending})
    assert options.ending == AskedOffsets(
        others="latest",
        by_topic={
            "persistent://public/default/orders": Offset(ledger_id=5, entry_id=7),
            "persistent://a/b/c": Offset(ledger_id=-1, entry_id=-1),
            "persistent://public/default/d": "earliest",
            "persistent://public/default/e": Offset(ledger_id=1, entry_id=2, messages=9),
        },
    )


def test_topics_and_patterns_are_read() -> None:
    several = ReadOptions.parse({"topics": "a, b/c/d,a", "url": URL})
    assert several.topics == ("persistent://public/default/a", "persistent://b/c/d")
    pattern = ReadOptions.parse({"topicsPattern": "orders-[0-9]+", "url": URL}).pattern
    assert pattern == TopicsPattern(namespace="public/default", name="orders-[0-9]+")
    assert pattern.matches("persistent://public/default/orders-12")
    assert not pattern.matches("persistent://public/default/orders-12x")
    assert not pattern.matches("persistent://public/other/orders-12")


def test_a_partition_belongs_to_the_read_of_its_topic() -> None:
    for option in ({"topics": "a,orders"}, {"topicsPattern": "ord.*"}):
        options = ReadOptions.parse({**option, "url": URL})
        assert options.names("persistent://public/default/orders")
        assert options.names("persistent://public/default/orders-partition-3")
        assert not options.names("persistent://public/default/b")
    partition = ReadOptions.parse({"topic": "orders-partition-3", "url": URL})
    assert partition.names("persistent://public/default/orders-partition-3")
    assert not partition.names("persistent://public/default/orders-partition-4")


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("100000000000", 100_000_000_000),
        ("1970-01-01T00:00:02", 2_000),
        ("1970-01-01T01:00:02.5+01:00", 2_500),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:03Z", 3_000),
    ],
)
def test_a_time_is_read_in_each_of_its_forms(text: str, time_ms: int) -> None:
    options = ReadOptions.parse({"topic": "t", "url": URL, "startingTime": text, "endingTime": text})
    assert (options.starting_time_ms, options.ending_time_ms) == (time_ms, time_ms)


def test_limits_are_for_streams_and_ends_for_batch_reads() -> None:
    limited = ReadOptions.parse({"topic": "t", "url": URL, "maxRowsPerTrigger": "9"})
    assert limited.limits == Limits(rows=9, size_bytes=None, entries=None)
    limited.require_stream()
    with pytest.raises(InvalidOption, match="option maxRowsPerTrigger is for streams"):
        limited.require_batch()
    ended = ReadOptions.parse({"topic": "t", "url": URL, "endingTime": "1970-01-02"})
    ended.require_batch()
    with pytest.raises(InvalidOption, match="option endingTime is for batch reads"):
        ended.require_stream()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("topic", " ", "option topic is missing"),
        ("url", "", "option url is missing"),
        ("url", "http://localhost:secret", "option url is not a PostgreSQL URL"),
        ("partitions", "0", "option partitions is '0': it must be a whole number from 1 to 1000"),
        ("partitions", "two", "option partitions is 'two'"),
        ("partitions", "-1", "option partitions is '-1'"),
        ("partitions", "²", "option partitions is '²'"),
        ("onCorrupt", "ignore", "option onCorrupt is 'ignore': it must be fail or skip"),
        ("batchRows", "10001", "option batchRows"),
        ("maxMessageBytes", "1", "option maxMessageBytes"),
        ("statementTimeoutMs", "0", "option statementTimeoutMs"),
        ("endingOffsets", "5:7", "option endingOffsets is '5:7'"),
        ("endingOffsets", '["orders"]', "option endingOffsets"),
        ("endingOffsets", '{"orders": 5}', "option endingOffsets"),
        ("endingOffsets", '{"orders": "5"}', "option endingOffsets"),
        ("startingOffsets", '{"orders": "5:7:0:1"}', "option startingOffsets"),
        ("startingOffsets", '{"orders": {"last": "5:7", "messages": "x"}}', "option startingOffsets"),
        ("startingTime", "yesterday", "option startingTime is 'yesterday': it must be a time like"),
        ("startingTime", "1760000000000000", "it is too many milliseconds since 1970, perhaps microseconds"),
        ("endingTime", "9" * 5000, "it is too many milliseconds since 1970"),
        ("startingTime", "", "option startingTime"),
        ("startingTime", "1760000000", "option startingTime is '1760000000': it is too few milliseconds"),
        ("endingTime", "2026", "option endingTime is '2026': it is too few milliseconds"),
        ("failOnDataLoss", "maybe", "option failOnDataLoss is 'maybe': it must be true or false"),
        ("maxRowsPerTrigger", "0", "option maxRowsPerTrigger"),
        ("topics", "a", "options topic and topics exclude each other"),
        ("topicsPattern", "a", "options topic and topicsPattern exclude each other"),
        ("path", "/tmp/x", "unknown option 'path'"),
        ("partitions", "9" * 5000, "it must be a whole number from 1 to 1000"),
        ("topic", "orders\0x", "option topic contains a NUL character"),
        ("predefinedSubscription", "a\0b", "option predefinedSubscription contains a NUL character"),
        ("predefinedSubscription", " ", "option predefinedSubscription is missing"),
        ("startingOffsets", "[" * 100_000, "option startingOffsets"),
    ],
)
def test_every_error_is_one_sentence(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        ReadOptions.parse({"topic": "orders", "url": URL, name: value})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": " , "}, "option topics is ','"),
        ({"topics": "a//b"}, "option topics: 'a//b' is not a topic name"),
        ({"topicsPattern": "a("}, "not a regular expression"),
        ({"topicsPattern": "a{99999999999}"}, "not a regular expression"),
        ({"topicsPattern": "(" * 5000 + ")" * 5000}, "not a regular expression"),
        ({"topicsPattern": "a/b"}, "option topicsPattern is 'a/b'"),
        ({"topic": "a", "startingTime": "1", "startingOffsets": "latest"}, "exclude each other"),
        (
            {"topic": "a", "startingTime": "2026-02-01", "endingTime": "2026-01-31T23:59:59Z"},
            "the starting time is after the ending time",
        ),
        ({"topic": "a", "startingTime": "1", "predefinedSubscription": "s"}, "exclude each other"),
        ({"topic": "a", "endingTime": "1", "endingOffsets": "latest"}, "exclude each other"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        ReadOptions.parse({"url": URL, **options})
    assert said in str(caught.value)


def test_short_names_are_spelled_out() -> None:
    assert full_topic_name("a/b/c") == "persistent://a/b/c"
    for wrong in ("non-persistent://a/b/c", "a/b", "kafka://a/b/c", "persistent://a//c"):
        with pytest.raises(InvalidOption):
            full_topic_name(wrong)


def test_the_sentence_is_found_in_the_traceback_of_a_worker() -> None:
    text = "Traceback:\n  File x\npipeline.errors.TopicNotFound: topic t does not exist\n\tat java"
    assert sentence_of(RuntimeError(text)) == "topic t does not exist"
    assert sentence_of(InvalidOption("short")) == "short"
    assert sentence_of(RuntimeError("something else")) is None
