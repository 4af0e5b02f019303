from __future__ import annotations

import pytest

from pipeline.errors import InvalidOption, sentence_of
from pipeline.options import ReadOptions, full_topic_name
from vela.wire.message_id import MessageId

URL = "postgresql://vela:secret@127.0.0.1:5432/vela"


def test_names_ignore_case_and_the_rest_has_defaults() -> None:
    options = ReadOptions.parse({"TOPIC": "orders", "url": URL, "oncorrupt": "SKIP"})
    assert options.topic == "persistent://public/default/orders"
    assert (options.partitions, options.batch_rows, options.skip_corrupt) == (2, 10_000, True)
    assert options.ending == ()


def test_ending_offsets_name_topics_and_their_last_entries() -> None:
    ending = '{"orders": "5:7", "persistent://a/b/c": "-1:-1"}'
    options = ReadOptions.parse({"topic": "orders", "url": URL, "endingOffsets": ending})
    assert options.ending == (
        ("persistent://public/default/orders", MessageId(5, 7)),
        ("persistent://a/b/c", MessageId(-1, -1)),
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("topic", " ", "option topic is missing"),
        ("url", "", "option url is missing"),
        ("url", "http://localhost:secret", "option url is not a PostgreSQL URL"),
        ("partitions", "0", "option partitions is '0': it must be a whole number from 1 to 64"),
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
        ("path", "/tmp/x", "unknown option 'path'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        ReadOptions.parse({"topic": "orders", "url": URL, name: value})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_short_names_are_spelled_out() -> None:
    assert full_topic_name("a/b/c") == "persistent://a/b/c"
    for wrong in ("non-persistent://a/b/c", "a/b", "kafka://a/b/c", "persistent://a//c"):
        with pytest.raises(InvalidOption):
            full_topic_name(wrong)


def test_the_sentence_is_found_in_a_workers_traceback() -> None:
    text = "Traceback:\n  File x\npipeline.errors.TopicNotFound: topic t does not exist\n\tat java"
    assert sentence_of(RuntimeError(text)) == "topic t does not exist"
    assert sentence_of(InvalidOption("short")) == "short"
    assert sentence_of(RuntimeError("something else")) is None
