"""Answers about acts, topics, clients, messages, policies and namespaces.

This file is long because each answer is a class with many fields.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from broker import models
from console.diagnosis.findings import Cure, Evidence, Severity
from console.queries.acts import ActRow
from console.queries.clients import ConsumerRow, ProducerRow
from console.queries.numbers import BookmarkRow
from console.queries.subscription import PendingRow
from console.words.subscriptions import Standing, StateWord, state_word
from console.words.troubles import Trouble

__all__ = [
    "Act",
    "Acts",
    "Compactions",
    "Consumers",
    "Cursor",
    "Cursors",
    "Diagnosis",
    "FoundMessages",
    "Message",
    "Messages",
    "Namespaces",
    "OneMessage",
    "OneSubscription",
    "OneTopic",
    "PoliciesInForce",
    "ProblemDocument",
    "Producers",
    "Stats",
    "SubscriptionStats",
    "Topic",
    "TopicStats",
    "Topics",
]


_WorstState = Annotated[
    StateWord | None,
    BeforeValidator(lambda state: None if state is None else state_word(state)),
    Field(description="the worst state of its subscriptions; null: none is reported"),
]


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Act(_Answer):
    """An act: a change that the broker makes on request."""

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
    is_retriable: bool = Field(description="the same act may succeed if you plan it again")
    who: str
    origin: str
    reason: str
    needs_reason: bool = Field(description="its namespace is protected, and the act has no reason yet")
    planned_by: str = Field(
        description="the user who planned it; `who` names the user who applied or refused it"
    )
    needs_second_person: bool = Field(
        description="it is planned, and a user other than the planner must apply it"
    )
    cursor_version: int | None
    undo_of: int | None
    undo_until: datetime | None
    undoable: bool = Field(
        description="it is applied, its time to undo is not over, and no later act moved its cursors"
    )
    undone_by: int | None = Field(description="the act that undid it")
    part_of: int | None = Field(description="the act on several partitions to which this one belongs")
    new_plan: int | None = Field(
        description="the act with the new preview, if more would be done than this one had planned"
    )
    created_at: datetime
    requested_at: datetime
    finished_at: datetime | None


class Acts(_Answer):
    """A page of the act log."""

    acts: list[ActRow]
    next_before: int | None


class Topic(_Answer):
    """The statistics of a topic, summed over partitions."""

    name: str
    partitions: int = Field(description="0: not partitioned")
    backlog_messages: int | None = Field(
        description="the largest backlog of a subscription; if partitioned, the sum of each partition's largest"
    )
    message_rate_in: float | None = Field(description="per second")
    byte_rate_in: float | None
    stored_bytes: int | None
    producers: int | None
    last_append_ms: int | None = Field(description="0: never")
    updated_ms: int | None
    subscriptions: int
    consumers: int | None
    message_rate_acked: float | None
    worst_subscription: str | None = Field(
        description="the one with the largest backlog on any one partition; null: none has a backlog"
    )
    state: _WorstState
    state_since_ms: int | None


class Topics(_Answer):
    """A page of the list of topics."""

    topics: list[Topic]
    next_after: str | None


class Partition(_Answer):
    """The statistics of one partition."""

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
    """A topic with its policies, producers, partitions and bookmarks."""

    partition: int = Field(description="-1: it is not a partition")
    parent: str | None
    created_at: datetime
    terminated_at: datetime | None
    namespace_policies: dict[str, Any] = Field(description="only those that are set")
    policies: dict[str, Any] = Field(description="only those that are set")
    producing: list[ProducerRow]
    partition_topics: list[Partition]
    bookmarks: list[BookmarkRow]


class CompactionFacts(_Answer):
    """The compaction of a topic or of one partition."""

    topic: str
    partition: int = Field(description="-1: it is not a partition")
    state: Literal["NOT_RUN", "RUNNING", "SUCCESS", "ERROR"] = Field(description="of the latest run")
    last_error: str
    horizon: str | None = Field(description="ledger:entry of the last entry that was compacted")
    kept_messages: int | None = Field(description="that readers of the compacted topic get up to the horizon")
    kept_bytes: int | None
    removed_messages: int | None = Field(description="by the latest run that succeeded")
    duration_ms: int | None = Field(description="of that run")
    backlog_messages: int | None = Field(description="published after the horizon")
    backlog_bytes: int | None
    started_at: datetime | None
    succeeded_at: datetime | None
    failed_at: datetime | None
    retry_at: datetime | None = Field(
        description="before this, the policy starts no run. Null: nothing delays it"
    )


class Compactions(_Answer):
    """The compaction of a topic, or of each of its partitions."""

    compactions: list[CompactionFacts]


class _Subscription(_Answer):
    """The fields that every answer about a subscription has. Null means that a value is unknown or does not exist."""

    name: str
    type: str
    paused: bool = Field(description="by an operator; true if at least one of several cursors is paused")
    acked_messages: int
    backlog_messages: int = Field(description="exact: messages in the log minus acknowledged messages")
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
        description="its state, as the broker judges it; of several cursors, the worst"
    )


class Cursor(_Subscription):
    """A subscription of an unpartitioned topic or of one partition."""

    topic: str
    partition: int = Field(description="-1: the topic is not a partition")
    mark_delete: str = Field(description="ledger:entry")
    version: int = Field(description="counts the acts and clients' seeks that changed the cursor")
    permits: int | None


class Cursors(_Answer):
    """A page of the cursors of a topic."""

    subscriptions: list[Cursor]
    next_after: str | None


class SubscriptionStats(_Subscription):
    """The statistics of a subscription, summed over partitions."""

    cursors: int = Field(description="one, or one for each partition that has the subscription")
    permits: int | None


class TopicStats(_Answer):
    """The statistics of a topic and a page of its subscriptions."""

    topic: Topic
    subscriptions: list[SubscriptionStats]
    next_after: str | None


class OneSubscription(_Subscription):
    """A subscription with its consumers and its first pending acks."""

    created_at: datetime
    topic_name: str
    partition: int = Field(description="-1: the topic is not a partition")
    mark_delete: str = Field(description="ledger:entry")
    read_position: str | None
    version: int = Field(description="counts the acts and clients' seeks that changed the cursor")
    acked_entries: int
    acked_bytes: int
    problems: dict[str, int] | None = Field(description="each problem in words, and how often it happened")
    message_rate_in: float | None = Field(description="of the topic")
    connected: list[ConsumerRow]
    pending: list[PendingRow]


class Consumers(_Answer):
    """A page of the list of connected consumers."""

    consumers: list[ConsumerRow]
    next_after: str | None


class Producers(_Answer):
    """A page of the list of connected producers."""

    producers: list[ProducerRow]
    next_after: str | None


class JudgedFinding(_Answer):
    """A finding of the diagnosis, with the address of its runbook page."""

    rule: str
    severity: Severity
    sentence: str
    evidence: tuple[Evidence, ...]
    cures: tuple[Cure, ...]
    runbook: str = Field(description="the address of the page, which needs no login")
    partition: int | None = Field(
        description="of a partitioned topic: the partition that the evidence and the cures are about"
    )
    partitions: tuple[int, ...] = Field(
        description="of a partitioned topic: all partitions that the finding concerns"
    )


class Diagnosis(_Answer):
    """The reasons why a subscription does not drain."""

    topic: str
    subscription: str
    at_ms: int = Field(description="when it was judged")
    findings: list[JudgedFinding] = Field(description="the leading cause first; at least one")
    partitions_left_out: int = Field(description="of a partitioned topic: partitions that were not looked at")


class Broker(_Answer):
    """The broker's last sign of life, by the database's clock."""

    is_running: bool = Field(description="it was seen in the last 5 s and was not stopped")
    host: str | None
    pid: int | None
    seen_at: datetime | None
    stopped_at: datetime | None = Field(description="when it stopped cleanly")


class Stats(_Answer):
    """Sums over all topics that you may see."""

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
        description="no broker has run yet, the broker was stopped, or the broker, beat or the tick worker is silent"
    )
    waiting_acts: int


# Declared as a list, because OpenAPI 3.0 tools cannot read the schema of a tuple.
_Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class Message(_Answer):
    """One message, or one entry that is not split into messages."""

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
    properties: list[_Pair]
    producer: str
    preview: str = Field(description="the first 200 characters, or hexadecimal")
    is_text: bool
    trouble: str = Field(description="why it is not split into messages")


class Messages(_Answer):
    """The next messages of a subscription."""

    messages: list[Message]


class StateOnSubscription(_Answer):
    """The state of a message on one subscription."""

    subscription: str
    state: Literal["acked", "in flight", "delayed", "unacked"]
    is_hole: bool = Field(description="not acknowledged, although a later entry is")
    consumer: str | None = Field(description="that has it in flight")
    delivered_ms: int | None
    redelivery_count: int | None
    due_ms: int | None = Field(description="when a delayed message is due")


class FoundMessage(Message):
    """A message that a search found, with its topic and its state."""

    topic: str = Field(description="the partition, if the topic is partitioned")
    partition: int = Field(description="-1: the topic is not partitioned, or is itself a partition")
    state: StateOnSubscription | None = Field(description="on the given subscription")
    columns: dict[str, str | None] = Field(
        description="the chosen columns, at most 200 characters each; null: the message has no such value"
    )


class LookedAt(_Answer):
    """The extent of a search."""

    entries: int = Field(description="including those left out by key hash")
    stored_entries: int = Field(description="in the logs that were read")
    opened_entries: int
    bytes: int
    matched: int
    by_key_hash: bool
    stopped_by: Literal["end", "limit", "entries", "bytes", "time", "database", "cursor"]
    not_searched: dict[str, int] = Field(description="entries that could not be judged, by reason")
    gone: int = Field(description="entries that were trimmed or moved during the search")


class FoundMessages(_Answer):
    """A page of the messages that a search found."""

    messages: list[FoundMessage]
    looked_at: LookedAt
    next_after: str | None = Field(
        description="null: stopped_by is end or cursor, or the first page stopped before it looked at an entry: then"
        " ask for it again"
    )


class DecoderAttempt(_Answer):
    """A decoder that was tried on a payload."""

    decoder: str
    why: str = Field(description="why it failed; empty: it succeeded")


class OneMessage(Message):
    """A message with its payload and its state on each subscription."""

    topic: str
    event_ms: int | None = Field(description="0: none")
    sequence_id: int | None
    ordering_key: str | None = Field(description="base64")
    payload: str | None = Field(description="null: it is not UTF-8")
    payload_base64: str | None
    payload_bytes: int
    is_cut: bool = Field(description="only the first 1 MiB is here")
    decoder: str = Field(description="empty: the bytes are all that can be shown")
    decoders: list[DecoderAttempt]
    states: list[StateOnSubscription]
    states_are_all: bool = Field(
        description="false: the topic has more subscriptions; these are the first by name"
    )
    older: str | None = Field(description="the position of the message before it")
    newer: str | None = Field(description="the position of the message after it")


class Policy(_Answer):
    """A policy in force."""

    name: str
    value: bool | int | str = Field(description="numbers are milliseconds, bytes or plain numbers")
    words: str = Field(description="the value as people write it; an act takes it like this too")
    set_on: Literal["topic", "namespace"] | None = Field(description="null: it follows the broker's settings")


class PoliciesInForce(_Answer):
    """The policies in force on a topic or a namespace."""

    name: str
    words: list[str] = Field(description="the effects of the policies on messages")
    policies: list[Policy]


class Namespace(_Answer):
    """A namespace, with totals over its topics."""

    name: str = Field(description="tenant/namespace")
    protected: bool = Field(description="every act in it needs a reason")
    second_person: bool = Field(description="one user plans every act in it, and another user applies it")
    topics: int = Field(description="partitions not counted")
    subscriptions: int = Field(description="durable ones, counted on each partition, as last reported")
    backlog_messages: int | None = Field(description="of the worst subscription of each topic")
    stored_bytes: int | None
    message_rate_in: float | None
    created_at: datetime


class Namespaces(_Answer):
    """A page of namespaces, sorted by name."""

    namespaces: list[Namespace]
    next_after: str | None


class ProblemDocument(_Answer):
    """An error as an RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what to change")
    code: str
    retriable: bool = Field(description="the same request may succeed later, or the act if you plan it again")
    act: int | None = Field(default=None, description="the act that the error is about")
    new_plan: int | None = Field(default=None, description="the act with the new preview, to apply instead")
    instance: str | None = Field(default=None, description="the address of the act")
