"""Every query parameter of producers, consumers and readers: default, good values, refused values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.websocket.json.options import (
    ConsumerOptions,
    ProducerOptions,
    ReaderOptions,
    consumer_options,
    producer_options,
    reader_options,
)
from vela.wire.letters import DeadLetterPolicy, DeadLetterRule, RetryPolicy
from vela.wire.message_id import EARLIEST, LATEST, MessageId
from vela.wire.redelivery_backoff import RedeliveryBackoff

BATCHING = {"batchingEnabled": "true"}


def test_sockets_without_options_have_the_defaults() -> None:
    assert producer_options({}) == ProducerOptions()
    assert consumer_options({}) == ConsumerOptions()
    assert reader_options({}) == ReaderOptions()
    producer, consumer, reader = ProducerOptions(), ConsumerOptions(), ReaderOptions()
    assert (producer.send_timeout_ms, producer.batching_max_messages) == (30_000, 1000)
    assert (producer.routing_mode, producer.hashing_scheme) == ("SinglePartition", "JavaStringHash")
    assert (producer.batching_enabled, producer.compression) == (False, "NONE")
    assert (consumer.subscription_type, consumer.subscription_mode) == ("Exclusive", "Durable")
    assert (consumer.initial_position, consumer.receiver_queue_size) == ("Latest", 1000)
    assert (consumer.ack_timeout_ms, consumer.negative_ack_redelivery_delay_ms) == (0, 60_000)
    assert (consumer.pull_mode, consumer.crypto_failure_action, consumer.window) == (False, "FAIL", 1000)
    assert (reader.start, reader.receiver_queue_size) == (LATEST, 1000)


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ({"producerName": "p"}, "producer_name", "p"),
        ({"producerName": ""}, "producer_name", None),
        ({"initialSequenceId": "41"}, "initial_sequence_id", 41),
        ({"initialSequenceId": "-1"}, "initial_sequence_id", None),
        ({"initialSequenceId": "9223372036854775807"}, "initial_sequence_id", 2**63 - 1),
        ({"hashingScheme": "Murmur3_32Hash"}, "hashing_scheme", "Murmur3_32Hash"),
        ({"sendTimeoutMillis": "0"}, "send_timeout_ms", 0),
        ({"sendTimeoutMillis": "+5"}, "send_timeout_ms", 5),
        ({"sendTimeoutMillis": "2147483647"}, "send_timeout_ms", 2**31 - 1),
        ({"messageRoutingMode": "RoundRobinPartition"}, "routing_mode", "RoundRobinPartition"),
        ({"messageRoutingMode": "CustomPartition"}, "routing_mode", "CustomPartition"),
        ({"batchingEnabled": "TRUE"}, "batching_enabled", True),
        ({"batchingEnabled": "False"}, "batching_enabled", False),
        ({"batchingMaxMessages": "7"}, "batching_max_messages", 1000),
        ({"batchingMaxMessages": "nonsense"}, "batching_max_messages", 1000),
        (BATCHING | {"batchingMaxMessages": "7"}, "batching_max_messages", 7),
        (BATCHING | {"batchingMaxPublishDelay": "20"}, "batching_max_publish_delay_ms", 20),
        ({"maxPendingMessages": "9"}, "max_pending_messages", 0),
        (BATCHING | {"maxPendingMessages": "9"}, "max_pending_messages", 9),
        *(({"compressionType": name}, "compression", name) for name in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")),
        ({"token": "x", "unheard": "of"}, "producer_name", None),
    ],
)
def test_options_of_a_producer_are_read(query: dict[str, str], field: str, value: object) -> None:
    assert getattr(producer_options(query), field) == value


@pytest.mark.parametrize(
    "query",
    [
        {"initialSequenceId": "x"},
        {"initialSequenceId": "-2"},
        {"initialSequenceId": "9223372036854775808"},
        {"initialSequenceId": "1" * 5000},
        {"hashingScheme": "javastringhash"},
        {"sendTimeoutMillis": "-1"},
        {"sendTimeoutMillis": "1_000"},
        {"sendTimeoutMillis": " 1"},
        {"sendTimeoutMillis": ""},
        {"sendTimeoutMillis": "2147483648"},
        {"sendTimeoutMillis": "١"},
        {"messageRoutingMode": ""},
        {"compressionType": "lz4"},
        {"batchingEnabled": "yes"},
        BATCHING | {"batchingMaxMessages": "0"},
        BATCHING | {"batchingMaxPublishDelay": "-1"},
        BATCHING | {"maxPendingMessages": "-1"},
    ],
)
def test_an_invalid_option_of_a_producer_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery, match=r"^Invalid query params: ") as caught:
        producer_options(query)
    assert caught.value.status == 400
    assert list(query)[-1] in caught.value.reason


def test_encryption_keys_are_refused_with_500() -> None:
    with pytest.raises(HandshakeRefused, match=r"^Failed to create producer: ") as caught:
        producer_options({"encryptionKeys": "key-1"})
    assert caught.value.status == 500


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        *(
            ({"subscriptionType": name}, "subscription_type", name)
            for name in ("Exclusive", "Shared", "Failover", "Key_Shared")
        ),
        ({"subscriptionMode": "NonDurable"}, "subscription_mode", "NonDurable"),
        ({"subscriptionInitialPosition": "Earliest"}, "initial_position", "Earliest"),
        ({"receiverQueueSize": "5000"}, "receiver_queue_size", 1000),
        ({"receiverQueueSize": "7"}, "receiver_queue_size", 7),
        ({"receiverQueueSize": "0"}, "window", 1),
        ({"consumerName": "c"}, "consumer_name", "c"),
        ({"priorityLevel": "3"}, "priority_level", 3),
        ({"ackTimeoutMillis": "0"}, "ack_timeout_ms", 0),
        ({"ackTimeoutMillis": "1000"}, "ack_timeout_ms", 1000),
        ({"ackTimeoutTickMillis": "250"}, "ack_timeout_tick_ms", 250),
        ({"ackTimeoutMillis": "1000", "ackTimeoutTickMillis": "5000"}, "ack_timeout_tick_ms", 1000),
        (
            {"ackTimeoutRedeliveryBackoff": "1000,60000,2.5"},
            "ack_timeout_backoff",
            RedeliveryBackoff(min_ms=1000, max_ms=60_000, multiplier=2.5),
        ),
        ({"negativeAckRedeliveryDelay": "0"}, "negative_ack_redelivery_delay_ms", 100),
        ({"negativeAckRedeliveryDelay": "101"}, "negative_ack_redelivery_delay_ms", 101),
        (
            {"negativeAckRedeliveryBackoff": "100,200"},
            "negative_ack_backoff",
            RedeliveryBackoff(min_ms=100, max_ms=200, multiplier=2),
        ),
        ({"batchIndexAck": "false"}, "batch_index_acks", False),
        ({"maxRedeliverCount": "3"}, "dead_letter", DeadLetterPolicy(max_redeliver_count=3)),
        (
            {"maxRedeliverCount": "3", "deadLetterTopic": "dlq"},
            "dead_letter",
            DeadLetterPolicy(max_redeliver_count=3, topic="dlq"),
        ),
        (
            {"maxRedeliverCount": "3", "deadLetterRule": "go", "deadLetterInitialSubscription": "look"},
            "dead_letter",
            DeadLetterPolicy(max_redeliver_count=3, rule=DeadLetterRule.GO, initial_subscription="look"),
        ),
        ({"retryEnable": "true"}, "retry", RetryPolicy()),
        ({"retryEnable": "true"}, "dead_letter", DeadLetterPolicy(max_redeliver_count=16)),
        (
            {"retryEnable": "true", "deadLetterTopic": "dlq"},
            "dead_letter",
            DeadLetterPolicy(max_redeliver_count=16, topic="dlq"),
        ),
        (
            {"retryEnable": "true", "retryLetterTopic": "again", "retryOnAckTimeout": "true"},
            "retry",
            RetryPolicy(topic="again", on_ack_timeout=True),
        ),
        ({"retryEnable": "false"}, "retry", None),
        ({"pullMode": "True"}, "pull_mode", True),
        ({"pullMode": "FALSE"}, "pull_mode", False),
        ({"cryptoFailureAction": "DISCARD"}, "crypto_failure_action", "DISCARD"),
    ],
)
def test_options_of_a_consumer_are_read(query: dict[str, str], field: str, value: object) -> None:
    assert getattr(consumer_options(query), field) == value


@pytest.mark.parametrize(
    "query",
    [
        {"subscriptionType": "shared"},
        {"subscriptionType": "Key-Shared"},
        {"subscriptionMode": "durable"},
        {"subscriptionInitialPosition": "Middle"},
        {"receiverQueueSize": "-1"},
        {"receiverQueueSize": "many"},
        {"consumerName": ""},
        {"consumerName": "  "},
        {"priorityLevel": "-1"},
        {"ackTimeoutMillis": "999"},
        {"ackTimeoutMillis": "-1"},
        {"negativeAckRedeliveryDelay": "-1"},
        {"maxRedeliverCount": "0"},
        {"maxRedeliverCount": "-1"},
        {"deadLetterTopic": "dlq"},
        {"deadLetterTopic": ""},
        {"deadLetterInitialSubscription": "look"},
        {"maxRedeliverCount": "3", "deadLetterRule": "Java"},
        {"retryLetterTopic": "again"},
        {"retryEnable": "false", "retryOnAckTimeout": "true"},
        {"retryEnable": "true", "maxRedeliverCount": "0"},
        {"ackTimeoutMillis": "1000", "ackTimeoutTickMillis": "99"},
        {"negativeAckRedeliveryBackoff": "100"},
        {"negativeAckRedeliveryBackoff": "200,100,2"},
        {"negativeAckRedeliveryBackoff": "100,200,0.5"},
        {"ackTimeoutRedeliveryBackoff": "0,200,2"},
        {"ackTimeoutRedeliveryBackoff": "a,b,c"},
        {"pullMode": "yes"},
        {"pullMode": ""},
        {"batchIndexAck": "1"},
        {"retryEnable": "on"},
        {"retryEnable": "true", "retryOnAckTimeout": "1"},
        {"cryptoFailureAction": "no"},
        {"cryptoFailureAction": "discard"},
    ],
)
def test_an_invalid_option_of_a_consumer_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery, match=r"^Invalid query params: ") as caught:
        consumer_options(query)
    assert caught.value.status == 400
    assert list(query)[-1] in caught.value.reason


def test_options_of_a_reader_are_read() -> None:
    message_id = MessageId(12, 34)
    assert reader_options({"messageId": "earliest"}).start == EARLIEST
    assert reader_options({"messageId": "latest"}).start == LATEST
    assert reader_options({"messageId": ""}).start == LATEST
    assert reader_options({"messageId": message_id.to_base64()}).start == message_id
    assert reader_options({"receiverQueueSize": "2000"}).window == 1000
    assert reader_options({"receiverQueueSize": "0"}).window == 1
    assert reader_options({"readerName": "r"}).reader_name == "r"


@pytest.mark.parametrize(
    "query",
    [
        {"messageId": "Earliest!"},
        {"messageId": "CA QI"},
        {"messageId": MessageId(1, 2, batch_index=0, batch_size=2**31 - 1).to_base64()},
        {"messageId": MessageId(1, 2, batch_index=2**31 - 1).to_base64()},
        {"receiverQueueSize": "x"},
        {"cryptoFailureAction": "?"},
    ],
)
def test_an_invalid_option_of_a_reader_is_refused_with_500(query: dict[str, str]) -> None:
    with pytest.raises(HandshakeRefused, match=r"^Failed to create reader: ") as caught:
        reader_options(query)
    assert caught.value.status == 500


NAMES = [
    "producerName", "initialSequenceId", "hashingScheme", "sendTimeoutMillis", "batchingEnabled",
    "batchingMaxMessages", "compressionType", "subscriptionType", "receiverQueueSize", "ackTimeoutMillis",
    "maxRedeliverCount", "deadLetterTopic", "pullMode", "cryptoFailureAction", "messageId", "consumerName",
]  # fmt: skip


@given(
    query=st.dictionaries(st.sampled_from(NAMES), st.one_of(st.text(), st.integers().map(str))),
    parse=st.sampled_from([producer_options, consumer_options, reader_options]),
)
def test_garbage_raises_only_handshake_refused(
    query: dict[str, str], parse: Callable[[dict[str, str]], Any]
) -> None:
    assert status_of(parse, query) in {None, 400, 500}


def status_of(parse: Callable[[dict[str, str]], Any], query: dict[str, str]) -> int | None:
    try:
        parse(query)
    except HandshakeRefused as error:
        return error.status
    return None
