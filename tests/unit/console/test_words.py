"""Acts and subscriptions in words."""

from __future__ import annotations

from typing import Any

import pytest

from broker.models import SubscriptionState
from console.words.acts import KINDS, acked_meanwhile, asked, must_type_name, sentence, state_word
from console.words.messages import filter_words, followed
from console.words.subscriptions import STATE_WORDS, Standing, standing, state_numbered

GAP = "\u202f"


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        ("reset", {"to": "back_time", "back_ms": 900_000}, f"rewind by 15{GAP}min"),
        ("reset", {"to": "shift", "messages": -1}, "rewind by 1 message"),
        ("reset", {"to": "shift", "messages": 2}, "advance by 2 messages"),
        ("reset", {"to": "like", "like": "b"}, "reset to where b is"),
        ("expire", {"to": "older", "older_ms": 60_000}, "expire messages older than 1\u202fmin"),
        ("reset", {"to": "earliest"}, "reset to the beginning"),
        ("reset", {"to": "latest"}, "reset to the end"),
        ("reset", {"to": "time", "time_ms": 1_500}, "reset to 1970-01-01 00:00:01.500 UTC"),
        ("reset", {"to": "id", "id": "3:7"}, "reset to 3:7"),
        ("reset", {"to": "id", "id": "3:7", "inclusive": False}, "reset to after 3:7"),
        ("skip", {"messages": 12_000}, f"skip 12{GAP}000 messages"),
        ("skip_entries", {"entries": 1}, "skip 1 entry"),
        ("skip_entries", {"entries": 12}, "skip 12 entries"),
        ("clear", {}, "clear the backlog"),
        ("schedule_job", {"job": "offload", "every_minutes": 1}, "run offload every minute"),
        ("schedule_job", {"job": "offload", "every_minutes": 60}, "run offload every 60 minutes"),
        ("schedule_job", {"job": "offload"}, "run offload every – minutes"),
        ("undo", {}, "undo act 4"),
        ("unsubscribe", {}, "unsubscribe"),
    ],
)
def test_the_parameters_of_an_act_are_said_in_words(
    kind: str, parameters: dict[str, Any], words: str
) -> None:
    assert asked(kind, parameters, 4) == words


@pytest.mark.parametrize(
    ("replayed", "skipped", "must"), [(10_000, 0, False), (10_001, 0, True), (0, 1, True), (0, 0, False)]
)
def test_large_or_lossy_acts_are_confirmed(replayed: int, skipped: int, must: bool) -> None:
    assert must_type_name("reset", {"replayed_messages": replayed, "skipped_messages": skipped}) is must


@pytest.mark.parametrize(
    ("planned", "set_now", "must"), [(100, None, False), (101, None, True), (101, 0, False), (0, 101, True)]
)
def test_the_allowed_drift_counts_for_the_confirmation(planned: int, set_now: int | None, must: bool) -> None:
    plan = {"replayed_messages": 9_900, "skipped_messages": 0, "allowed_drift_messages": planned}
    assert must_type_name("reset", plan, set_now) is must


@pytest.mark.parametrize(
    ("kind", "planned", "done", "published", "words"),
    [
        (
            "reset",
            (4, 6),
            (5, 4),
            0,
            "1 of them is delivered again too, 2 of them were not skipped",
        ),
        ("undo", (4, 0), (2, 0), 0, "2 of them are not delivered again"),
        ("clear", (0, 6), (0, 6), 3, ""),
        ("delete", (0, 6), (0, 7), 3, "2 of them were not skipped"),
    ],
)
def test_the_words_of_a_receipt_say_what_became_of_messages_acked_since_the_plan(
    kind: str, planned: tuple[int, int], done: tuple[int, int], published: int, words: str
) -> None:
    plan: dict[str, Any] = {"replayed_messages": planned[0], "skipped_messages": planned[1]}
    if kind == "delete":
        plan["standing"] = {}
    result = {
        "replayed_messages": done[0],
        "skipped_messages": done[1],
        "published_meanwhile_messages": published,
    }
    assert acked_meanwhile(plan, result) == words


def test_without_a_plan_no_confirmation_is_needed() -> None:
    assert not must_type_name("reset", None)


def test_a_new_state_is_shown_as_it_is() -> None:
    assert state_word("somewhere") == ("somewhere", "calm")


def described(state: SubscriptionState | None, **numbers: Any) -> Standing:
    known: dict[str, Any] = {
        "since_ms": 1,
        "drain_s": None,
        "backlog_messages": 1000,
        "consumers": 3,
        "unacked_messages": 0,
    }
    return standing(state=state, **{**known, **numbers})


def test_every_state_has_its_own_word_and_a_sentence() -> None:
    assert [described(state).state for state in SubscriptionState] == [
        state.words for state in SubscriptionState
    ]
    assert [state_numbered(word) for word in STATE_WORDS] == list(SubscriptionState)
    assert len({described(state).sentence for state in SubscriptionState}) == len(SubscriptionState)
    assert (described(None).state, state_numbered("unknown"), state_numbered("nonsense")) == ("unknown", 0, 0)


@pytest.mark.parametrize(
    ("state", "numbers", "words"),
    [
        (SubscriptionState.STUCK, {}, "nothing is acked"),
        (SubscriptionState.STUCK, {"consumers": 0}, "no consumer is connected"),
        (SubscriptionState.STUCK, {"consumers": None}, "nothing is acked"),
        (SubscriptionState.STUCK, {"unacked_messages": 5}, "are delivered"),
        (SubscriptionState.KEEPING_UP, {"consumers": 0}, "will soon be stuck"),
        (SubscriptionState.KEEPING_UP, {"consumers": 0, "backlog_messages": 0}, "as fast as"),
        (SubscriptionState.IDLE, {}, "delayed"),
        (SubscriptionState.IDLE, {"backlog_messages": 0}, "Nothing waits"),
    ],
)
def test_the_numbers_explain_the_state(state: SubscriptionState, numbers: dict[str, Any], words: str) -> None:
    assert words in described(state, **numbers).sentence


def test_only_a_draining_subscription_has_a_time_to_go() -> None:
    """The numbers are sums over partitions: one may drain while another is stuck."""
    assert described(SubscriptionState.DRAINING, drain_s=20).drain_s == 20
    assert described(SubscriptionState.STUCK, drain_s=20).drain_s is None


@pytest.mark.parametrize(
    ("words", "names", "said"),
    [
        ("the plan is too old", ["billing"], "The plan is too old."),
        ("billing is deleted", ["persistent://a/b/orders", "billing"], "billing is deleted."),
        ("orders is emptied up to 12:4071", ["persistent://a/b/orders"], "orders is emptied up to 12:4071."),
        ("billings are due", ["billing"], "Billings are due."),
        (
            "12408 messages are skipped; entry 12:40711 stays",
            [],
            "12\u202f408 messages are skipped; entry 12:40711 stays.",
        ),
        ("up to 1000 more (10000 in all)", [], "Up to 1\u202f000 more (10\u202f000 in all)."),
        ("topic-2026 messages stay", ["topic-2026"], "topic-2026 messages stay."),
        ("已经有用户 'admin'", [], "已经有用户 'admin'。"),
        ("there is already a user '管理'", [], "There is already a user '管理'."),
        ("persistent://a/b/mail has 2 messages", [], "persistent://a/b/mail has 2 messages."),
        ("orders-billing-DLQ gets 1 letter", [], "orders-billing-DLQ gets 1 letter."),
        ("shop/eu is deleted", [], "shop/eu is deleted."),
        ("retention_ms limits too", [], "retention_ms limits too."),
        ("policy retention_ms changes", [], "Policy retention_ms changes."),
        ("partition 0: no owner", [], "Partition 0: no owner."),
        ("it's too late", [], "It's too late."),
    ],
)
def test_the_broker_s_words_become_a_sentence(words: str, names: list[str], said: str) -> None:
    assert sentence(words, names) == said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"matched": 0, "skipped": 0}, "0 messages have arrived."),
        ({"matched": 1, "skipped": 0}, "1 message has arrived."),
        ({"matched": 1, "skipped": 0, "is_filtered": True}, "1 message that matches has arrived."),
        (
            {"matched": 2000, "skipped": 1, "is_filtered": True},
            "2\u202f000 messages that match have arrived. 1 entry was skipped: more arrived than this page looks at.",
        ),
        ({"matched": 0, "skipped": 0, "is_first": True}, "The newest messages are below."),
        (
            {"matched": 0, "skipped": 0, "is_first": True, "is_filtered": True},
            "The matches among the newest entries are below.",
        ),
    ],
)
def test_the_words_of_a_followed_topic_count_what_has_come(given: dict[str, Any], words: str) -> None:
    assert followed(**{"is_filtered": False, "is_first": False, **given}) == words


def test_filters_are_said_in_words() -> None:
    given = {"partition": 0, "key": "", "prop": "a={b}", "path": "n", "op": "", "value": "{}", "text": None}
    assert filter_words(given) == ["partition 0", "property a={b}", "n = {}"]
    assert filter_words({"path": "n", "op": "exists", "value": ""}) == ["n exists"]
    assert filter_words({}) == []


def test_every_kind_of_act_has_words_of_its_own() -> None:
    assert len(set(KINDS.values())) == len(KINDS)
