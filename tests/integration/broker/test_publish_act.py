"""The act publish: its message is stored once whatever happens, and a refusal says what to change."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from broker.acts import requests as acts
from broker.acts.kinds.topics.message import MOST_PAYLOAD_BYTES
from broker.core.errors import SendOutcomeUnknown
from broker.core.schemas.schema import SchemaDefinition, SchemaType, version_bytes
from broker.producers.internal_producer import InternalProducer
from tests.integration.broker.topic_acting import P, T, apply, done, one_by_one, partitioned, plan
from tests.support.acting import answered
from tests.support.broker_harness import BrokerRun, ConsumerProbe, one_row, rows
from vela.wire.entry import Message, decode_messages

pytestmark = pytest.mark.usefixtures("acts_of_run")

RECORD = SchemaDefinition(
    type=SchemaType.JSON,
    data=b'{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}',
)


def messages_of(consumer: ConsumerProbe) -> list[Message]:
    return [
        message
        for each in consumer.deliveries
        for message in decode_messages(each.entry.data, max_message_bytes=2 * MOST_PAYLOAD_BYTES)
    ]


def stored(run: BrokerRun, topic: str = "t") -> int:
    """Return how many messages were ever appended."""
    return run.topic(topic).log.ledgers.total_messages


async def test_a_message_reaches_the_consumers_with_all_that_was_given(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    given: dict[str, Any] = {
        "value": '{"id": 1}',
        "encoding": "json",
        "key": "eu",
        "properties": {"by": "hand"},
        "event_time_ms": 7,
    }
    planned = await plan("publish", **given)
    assert planned.plan is not None, planned.error
    assert list(planned.plan["words"]) == [
        f"1 message of 9 bytes is stored in {T}",
        "1 subscription gets it",
    ]
    assert "cannot be undone" in planned.plan["notes"][0]
    assert stored(run) == 0
    applied = await apply(planned)
    assert (applied.state, applied.error) == ("applied", "")
    assert applied.result is not None
    await consumer.has(1)
    (position,) = consumer.positions
    assert applied.result["message_id"] == str(position)
    (message,) = messages_of(consumer)
    assert (message.payload, message.key, message.properties) == (b'{"id": 1}', "eu", {"by": "hand"})
    assert (message.event_time_ms, message.producer_name) == (7, f"vela-act-{planned.id}")


async def test_a_message_without_a_value_reaches_the_consumers_without_one(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    await run.producer(schema=RECORD)
    applied = await done("publish", null_value=True, encoding="json", key="eu")
    assert applied.result is not None
    assert applied.plan is not None
    assert applied.plan["words"][0] == f"1 message without a value is stored in {T}"
    assert applied.result["payload_sha256"] is None
    assert applied.parameters == {"null_value": True}
    await consumer.has(1)
    (message,) = messages_of(consumer)
    assert (message.null_value, message.payload, message.key) == (True, b"", "eu")
    with pytest.raises(acts.ActRefused, match="use value or null_value, not both"):
        await plan("publish", null_value=True, value="a")


async def test_a_long_key_and_a_long_property_are_published(run: BrokerRun) -> None:
    """A dead letter that is published again often has a stack trace in a property."""
    consumer = await run.consumer(permits=10)
    await done("publish", value="a", key="k" * 5000, properties={"exception": "x" * 50_000})
    await consumer.has(1)
    (message,) = messages_of(consumer)
    assert (len(message.key or ""), len(message.properties["exception"])) == (5000, 50_000)


async def test_the_log_keeps_a_digest_and_not_the_message(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan(
        "publish", value="secret", key="hidden", properties={"hidden": "hidden"}, copy_of="orders 1:2"
    )
    select = "SELECT parameters::text || plan::text || coalesce(result::text, ''), message FROM vela_act"
    words, message = one_row(run.database_url, select)
    assert "secret" not in words
    assert b"secret" in bytes(message)
    applied = await apply(planned)
    words, message = one_row(run.database_url, select)
    assert "secret" not in words
    assert "hidden" not in words
    assert message is None
    assert applied.result is not None
    assert applied.result["payload_bytes"] == 6
    assert applied.result["payload_sha256"].startswith("2bb80d537b1d")
    assert applied.parameters == {"copy_of": "orders 1:2"}


async def test_a_plan_that_is_applied_twice_publishes_once(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("publish", value="a")
    await apply(planned)
    with pytest.raises(acts.ActRefused, match="only a planned act can be applied"):
        await apply(planned)
    assert stored(run) == 1


async def test_a_broker_that_died_before_it_stored_the_result_does_not_publish_again(run: BrokerRun) -> None:
    producer = await run.producer()
    await producer.publish(3)
    first = await done("publish", value="a")
    await producer.publish(150)  # more messages than one read takes
    rows(
        run.database_url,
        "UPDATE vela_act SET state = 'apply_requested', result = NULL, requested_at = now() - interval '1 day'",
    )
    rows(run.database_url, "SELECT pg_notify('vela_act', '')")
    state, _, result, error = await answered(run, first.id)
    assert (state, error) == ("applied", "")
    assert first.result is not None
    assert result["message_id"] == first.result["message_id"]
    assert stored(run) == 154


async def test_a_message_that_may_have_been_trimmed_meanwhile_is_not_published_again(run: BrokerRun) -> None:
    """A consumer may have got and acked the message before the broker died."""
    await run.producer()
    await done("set_topic_policies", set={"ledger_max_entries": "2", "ledger_min_age_ms": "0"})
    first = await done("publish", value="a")
    await one_by_one(await run.producer(), 5)
    await done("truncate")
    rows(
        run.database_url,
        "UPDATE vela_act SET state = 'apply_requested', result = NULL WHERE id = %s",
        first.id,
    )
    rows(run.database_url, "SELECT pg_notify('vela_act', '')")
    state, _, _, error = await answered(run, first.id)
    assert (state, "it may or may not be stored" in error) == ("failed", True), error
    assert stored(run) == 6


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_receipt_that_is_lost_leads_to_one_message(
    is_stored: bool, run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.producer()
    publish = InternalProducer.publish
    lost: list[object] = []

    async def lose_the_first(self: InternalProducer, *given: Any, **named: Any) -> Any:
        if lost:
            return await publish(self, *given, **named)
        lost.append(await publish(self, *given, **named) if is_stored else None)
        raise SendOutcomeUnknown("the topic went away")

    monkeypatch.setattr(InternalProducer, "publish", lose_the_first)
    applied = await done("publish", value="a")
    assert applied.result is not None
    assert applied.result["message_id"]
    assert stored(run) == 1


async def test_a_message_whose_fate_stays_unknown_has_not_been_refused(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.producer()

    async def lose(self: InternalProducer, *given: Any, **named: Any) -> Any:
        raise SendOutcomeUnknown("the topic went away")

    monkeypatch.setattr(InternalProducer, "publish", lose)
    planned = await plan("publish", value="a")
    failed = await apply(planned)
    assert failed.state == "failed"
    assert f"look for the producer vela-act-{planned.id}" in failed.error


async def test_the_key_chooses_the_partition_unless_one_is_given(run: BrokerRun) -> None:
    await partitioned(run, 3)
    by_key = [(await plan("publish", P, value="a", key="k")).plan for _ in range(2)]
    assert by_key[0] is not None
    assert by_key[1] is not None
    assert by_key[0]["topic"] == by_key[1]["topic"]
    chosen = await done("publish", P, value="a", key="k", partition=2)
    assert chosen.result is not None
    assert chosen.result["topic"] == f"{P}-partition-2"
    assert stored(run, "p-partition-2") == 1
    refused = await plan("publish", P, value="a", partition=3)
    assert "has 3 partitions" in refused.error


async def test_binary_keys_and_payloads_come_as_base64(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    key, value = base64.b64encode(b"\xff\x00").decode(), base64.b64encode(b"\x00\xfe").decode()
    await done("publish", value=value, encoding="base64", key=key, key_encoding="base64", ordering_key=key)
    await consumer.has(1)
    (message,) = messages_of(consumer)
    assert (message.payload, message.key, message.key_b64) == (b"\x00\xfe", key, True)
    assert message.ordering_key == b"\xff\x00"


async def test_a_delay_counts_from_the_apply(run: BrokerRun) -> None:
    await run.consumer(permits=10)
    await done("publish", value="later", deliver_after_ms=3_600_000)
    (deliver_at_ms, now_ms) = one_row(
        run.database_url,
        "SELECT deliver_at_ms, (extract(epoch FROM now()) * 1000)::bigint FROM vela_entry",
    )
    assert 3_500_000 < deliver_at_ms - now_ms <= 3_600_000


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"value": "x", "encoding": "base64"}, "value is not base64"),
        ({"value": "{", "encoding": "json"}, "value is not JSON"),
        ({"value": "", "encoding": "json"}, "value is empty, which is not JSON"),
        ({"value": "x", "encoding": "xml"}, "use text or json or base64"),
        ({"key": "x", "key_encoding": "base64"}, "key is not base64"),
        ({"deliver_at_ms": 1, "deliver_after_ms": 1}, "not both"),
        ({"properties": {"a": 1}}, "an object whose values are text"),
        ({"properties": {str(n): "x" * 4000 for n in range(20)}}, "the limit is 65536"),
        ({"value": "é" * MOST_PAYLOAD_BYTES}, "an act publishes at most 1048576"),
        ({"value": "x" * 2_000_000}, "text of at most"),
        ({"value": "a\0b"}, "without NUL"),
        ({"partition": -1}, "from 0"),
        ({"event_time_ms": 0}, "from 1"),
        ({"payload": "x"}, "unknown parameter"),
    ],
)
async def test_parameters_that_make_no_message_are_refused_and_leave_no_act(
    parameters: dict[str, Any], says: str, run: BrokerRun
) -> None:
    await run.producer()
    with pytest.raises(acts.ActRefused, match=says):
        await plan("publish", **parameters)
    assert rows(run.database_url, "SELECT 1 FROM vela_act") == []


async def test_a_terminated_topic_takes_no_message_even_if_it_ended_after_the_plan(run: BrokerRun) -> None:
    await run.producer()
    early = await plan("publish", value="a")
    await done("terminate")
    refused = await apply(early)
    assert (refused.state, refused.error_code) == ("refused", "TopicTerminatedError")
    assert "is terminated" in refused.error
    assert "is terminated" in (await plan("publish", value="a")).error
    assert stored(run) == 0
    assert rows(run.database_url, "SELECT 1 FROM vela_act WHERE message IS NOT NULL") == []


async def test_a_full_backlog_quota_refuses_the_message(run: BrokerRun) -> None:
    await run.consumer()
    await (await run.producer()).publish(3)
    await run.policies("t", backlog_quota_bytes=1)
    refused = await plan("publish", value="a")
    assert refused.state == "refused"
    assert "quota" in refused.error


async def test_a_message_beyond_the_topics_limit_is_refused(run: BrokerRun) -> None:
    await run.producer()
    await run.policies("t", max_message_bytes=10)
    refused = await plan("publish", value="x" * 11)
    assert f"the payload has 11 bytes: {T} takes at most 10" in refused.error
    assert (await plan("publish", value="x" * 10)).state == "planned"


async def test_a_topic_with_a_schema_takes_only_its_values(run: BrokerRun) -> None:
    await run.producer(schema=RECORD)
    consumer = await run.consumer(permits=10)
    await run.policies("t", schema_validation_enforced=True)
    for value, says in (
        ("{}", "id is missing"),
        ('{"id": "a"}', "id is a string"),
        ("order", "it is not JSON"),
    ):
        refused = await plan("publish", value=value)
        assert refused.state == "refused"
        assert says in refused.error
        assert "the payload does not match the topic's schema" in refused.error
    await done("publish", value='{"id": 4}')
    await consumer.has(1)
    (message,) = messages_of(consumer)
    assert message.schema_version == version_bytes(0)


async def test_a_topic_that_does_not_exist_is_not_made(run: BrokerRun) -> None:
    with pytest.raises(acts.ActRefused, match="there is no topic"):
        await plan("publish", "persistent://public/default/nowhere", value="a")
