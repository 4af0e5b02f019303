"""What operations answer with. Fields with a comment in `console.queries` mean the same here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from broker import models
from console.diagnosis.findings import Finding
from console.queries.acts import ActRow
from console.queries.numbers import BookmarkRow
from console.queries.subscription import ConsumerRow, PendingRow
from console.queries.topic import ProducerRow
from console.words.subscriptions import Standing, StateWord, state_word
from console.words.troubles import Trouble

__all__ = [
    "Act",
    "Acts",
    "Cursor",
    "Cursors",
    "Diagnosis",
    "FoundMessages",
    "Message",
    "Messages",
    "OneMessage",
    "OneSubscription",
    "OneTopic",
    "PoliciesInForce",
    "ProblemDocument",
    "Stats",
    "SubscriptionStats",
    "Topic",
    "TopicStats",
    "Topics",
]


_WorstState = Annotated[
    StateWord | None,
    BeforeValidator(lambda state: None if state is None else state_word(state)),
    Field(description="the worst of its subscriptions; null: none is reported"),
]


class _Answer(BaseModel):
    """Filled from a dict or from the attributes of a query's row; what it does not name is left out."""

    model_config = ConfigDict(from_attributes=True)


class Act(_Answer):
    """An act as it is now."""

    id: int
    kind: str
    state: models.Act.State
    topic: str
    subscription: str = Field(description="empty for an act on a topic or namespace")
    parameters: dict[str, Any]
    plan: dict[str, Any] | None
    result: dict[str, Any] | None
    progress: dict[str, Any] | None = Field(description="of long work")
    error: str
    error_code: str
    is_waiting: bool = Field(description="no broker has answered yet")
    is_retriable: bool = Field(description="the same may succeed when it is planned again")
    who: str
    origin: str
    reason: str
    cursor_version: int | None
    undo_of: int | None
    undo_until: datetime | None
    undoable: bool = Field(description="it is the latest of its cursor and in time")
    undone_by: int | None = Field(description="the act that took it back")
    new_plan: int | None = Field(
        description="the act that holds the new preview, where more would be done than this one had planned"
    )
    created_at: datetime
    requested_at: datetime
    finished_at: datetime | None


class Acts(_Answer):
    """A page of the act log."""

    acts: list[ActRow]
    next_before: int | None


class Topic(_Answer):
    """The numbers of a topic, summed over partitions."""

    name: str
    partitions: int = Field(description="0: not partitioned")
    backlog_messages: int | None = Field(description="of the subscription with the largest backlog")
    message_rate_in: float | None = Field(description="per second")
    byte_rate_in: float | None
    stored_bytes: int | None
    producers: int | None
    last_append_ms: int | None = Field(description="0: never")
    updated_ms: int | None
    subscriptions: int
    consumers: int | None
    message_rate_acked: float | None
    worst_subscription: str | None = Field(description="the one with the largest backlog")
    state: _WorstState
    state_since_ms: int | None


class Topics(_Answer):
    """A page of the list of topics."""

    topics: list[Topic]
    next_after: str | None


class Partition(_Answer):
    """The numbers of one partition."""

    name: str
    partition: int
    messages_in: int | None
    stored_bytes: int | None
    message_rate_in: float | None
    backlog_messages: int | None
    last_append_ms: int | None
    updated_ms: int | None
    state: _WorstState


class OneTopic(Topic):
    """A topic, what is set on it, and what belongs to it."""

    partition: int = Field(description="-1: it is not a partition")
    parent: str | None
    created_at: datetime
    terminated_at: datetime | None
    namespace_policies: dict[str, Any] = Field(description="only what is set")
    policies: dict[str, Any] = Field(description="only what is set")
    producing: list[ProducerRow]
    partition_topics: list[Partition]
    bookmarks: list[BookmarkRow]


class _Subscription(_Answer):
    """What every answer about a subscription has. Null: no broker has reported it, or there is no consumer."""

    name: str
    type: str
    paused: bool = Field(description="by an operator; of several cursors at least one")
    acked_messages: int
    backlog_messages: int = Field(description="exact: the end of the log minus what is acknowledged")
    backlog_bytes: int
    oldest_unacked_ms: int | None
    consumers: int | None
    unacked_messages: int | None
    replay_entries: int | None
    message_rate_out: float | None = Field(description="per second")
    message_rate_acked: float | None
    messages_redelivered: int | None
    updated_ms: int | None
    standing: Standing = Field(
        description="how it gets on, judged by the broker; of several cursors the worst"
    )


class Cursor(_Subscription):
    """A subscription of one topic that holds messages itself."""

    topic: str
    partition: int = Field(description="-1: the topic is no partition")
    mark_delete: str = Field(description="ledger:entry")
    version: int = Field(description="counts acts")
    permits: int | None


class Cursors(_Answer):
    """A page of the cursors of a topic."""

    subscriptions: list[Cursor]
    next_after: str | None


class SubscriptionStats(_Subscription):
    """The numbers of a subscription, summed over partitions."""

    cursors: int = Field(description="one, or as many as partitions have it")
    permits: int | None


class TopicStats(_Answer):
    """The numbers of a topic and a page of its subscriptions."""

    topic: Topic
    subscriptions: list[SubscriptionStats]
    next_after: str | None


class OneSubscription(_Subscription):
    """A subscription with its consumers and first pending acks."""

    created_at: datetime
    topic_name: str
    partition: int = Field(description="-1: the topic is no partition")
    mark_delete: str = Field(description="ledger:entry")
    read_position: str | None
    version: int = Field(description="counts acts")
    acked_entries: int
    acked_bytes: int
    problems: dict[str, int] | None = Field(description="what went wrong, in words: how often")
    message_rate_in: float | None = Field(description="of the topic")
    connected: list[ConsumerRow]
    pending: list[PendingRow]


class Diagnosis(_Answer):
    """Why a subscription does not drain."""

    topic: str
    subscription: str
    at_ms: int = Field(description="when it was judged")
    findings: list[Finding] = Field(description="the leading cause first; at least one")


class Broker(_Answer):
    """The broker's last sign of life, by the database's clock."""

    is_running: bool = Field(description="it was seen in the last 5 s and was not stopped")
    host: str | None
    pid: int | None
    seen_at: datetime | None
    stopped_at: datetime | None = Field(description="a clean stop")


class Stats(_Answer):
    """Sums over everything."""

    topics: int = Field(description="a partitioned one counts once")
    producers: int
    message_rate_in: float
    byte_rate_in: float
    stored_bytes: int
    consumers: int
    backlog_messages: int
    unacked_messages: int
    message_rate_out: float
    message_rate_acked: float
    broker: Broker
    troubles: list[Trouble] = Field(
        description="what is wrong: no broker, or a silent one, beat or tick worker"
    )
    waiting_acts: int


class Message(_Answer):
    """One message, or one entry that is not taken apart."""

    id: str = Field(validation_alias="message_id")
    ledger_id: int
    entry_id: int
    batch_index: int = Field(description="-1: not in a batch")
    batch_size: int
    append_ms: int
    publish_ms: int
    deliver_at_ms: int = Field(description="0: at once")
    size_bytes: int
    key: str | None
    key_is_base64: bool = Field(description="the key is binary, and key is its base64 text")
    properties: list[tuple[str, str]]
    producer: str
    preview: str = Field(description="the first 200 characters, or hexadecimal")
    is_text: bool
    trouble: str = Field(description="why it is not taken apart")


class Messages(_Answer):
    """The next messages of a subscription."""

    messages: list[Message]


class StateOnSubscription(_Answer):
    """What has become of a message on one subscription."""

    subscription: str
    state: Literal["acked", "in flight", "delayed", "unacked"]
    is_hole: bool = Field(description="not acknowledged, although a later entry is")
    consumer: str | None = Field(description="that has it in flight")
    delivered_ms: int | None
    redelivery_count: int | None
    due_ms: int | None = Field(description="when a delayed message is due")


class FoundMessage(Message):
    """A message that matches, and where it is."""

    topic: str = Field(description="the partition, if the topic is partitioned")
    partition: int = Field(description="-1: the topic is not partitioned")
    state: StateOnSubscription | None = Field(description="on the subscription that was named")


class LookedAt(_Answer):
    """How far a search went."""

    entries: int = Field(description="with those that their key hash left out")
    stored_entries: int = Field(description="in the logs that were read")
    opened_entries: int
    bytes: int
    matched: int
    by_key_hash: bool
    stopped_by: Literal["end", "limit", "entries", "bytes", "time", "database", "cursor"]
    not_searched: dict[str, int] = Field(description="entries that could not be judged, by reason")
    gone: int = Field(description="entries that were trimmed or moved meanwhile")


class FoundMessages(_Answer):
    """A page of the messages that match."""

    messages: list[FoundMessage]
    looked_at: LookedAt
    next_after: str | None = Field(description="null: everything was looked at")


class DecoderAttempt(_Answer):
    """A decoder that was tried on a payload."""

    decoder: str
    why: str = Field(description="why it failed; empty: it succeeded")


class OneMessage(Message):
    """A message with its payload and with what has become of it."""

    topic: str
    event_ms: int | None = Field(description="0: none")
    sequence_id: int | None
    ordering_key: str | None = Field(description="base64")
    payload: str | None = Field(description="null: it is not text, or cannot be read")
    payload_base64: str | None
    payload_bytes: int
    is_cut: bool = Field(description="only the first 1 MiB is here")
    decoder: str = Field(description="empty: the bytes are all that can be shown")
    decoders: list[DecoderAttempt]
    states: list[StateOnSubscription]
    states_are_all: bool = Field(
        description="false: the topic has more subscriptions than these, the first by name"
    )
    older: str | None = Field(description="the neighbours by position")
    newer: str | None


class Policy(_Answer):
    """A policy in force."""

    name: str
    value: bool | int | str
    set_on: Literal["topic", "namespace"] | None = Field(description="null: it follows the broker's settings")


class PoliciesInForce(_Answer):
    """The policies in force on a topic or a namespace."""

    name: str
    policies: list[Policy]


class ProblemDocument(_Answer):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what to change")
    code: str
    retriable: bool = Field(description="the same may succeed later, or when planned again")
    act: int | None = Field(default=None, description="the act that was refused")
    new_plan: int | None = Field(
        default=None, description="the act that holds its new preview, to be applied instead"
    )
    instance: str | None = Field(default=None, description="the address of the act")
