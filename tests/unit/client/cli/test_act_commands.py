"""Every kind of act has a command, and what a command sends is what the kind takes."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from broker.acts.kinds.base import Scope
from broker.acts.kinds.registry import KINDS, find_kind
from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole
from vela.cli.root import cli

ORDERS = "persistent://public/default/orders"
NOON = "2026-01-01T12:00:00+00:00"
NOON_MS = 1_767_268_800_000
FIGURES = "--most 5 --rate 2 --max-redrives 4"

LINES: list[tuple[str, str, dict[str, Any]]] = [
    ("reset orders billing --earliest", "reset", {"to": "earliest"}),
    ("reset orders billing --latest", "reset", {"to": "latest"}),
    (f"reset orders billing --time {NOON}", "reset", {"to": "time", "time_ms": NOON_MS}),
    ("reset orders billing --time 0", "reset", {"to": "time", "time_ms": 0}),
    ("reset orders billing --back 15m", "reset", {"to": "back_time", "back_ms": 900_000}),
    ("reset orders billing --id 5:3:1", "reset", {"to": "id", "id": "5:3:-1:1"}),
    ("reset orders billing --after-id 5:3", "reset", {"to": "id", "id": "5:3", "inclusive": False}),
    ("reset orders billing --like mail", "reset", {"to": "like", "like": "mail"}),
    ("reset orders billing --bookmark launch", "reset", {"to": "bookmark", "bookmark": "launch"}),
    ("shift orders billing --back 7", "reset", {"to": "shift", "messages": -7}),
    ("shift orders billing --forward 7", "reset", {"to": "shift", "messages": 7}),
    ("skip orders billing --messages 3", "skip", {"messages": 3}),
    ("skip orders billing --id 5:3", "skip_one", {"id": "5:3"}),
    ("skip orders billing --id 5:3:1", "skip_one", {"id": "5:3:-1:1"}),
    ("skip orders billing --id 5:3:2:1", "skip_one", {"id": "5:3:2:1"}),
    ("clear orders billing", "clear", {}),
    ("expire orders billing --older 1d", "expire", {"to": "older", "older_ms": 86_400_000}),
    (f"expire orders billing --before {NOON}", "expire", {"to": "time", "time_ms": NOON_MS}),
    ("expire orders billing --id 5:3", "expire", {"to": "id", "id": "5:3"}),
    ("pause orders billing", "pause", {}),
    ("resume orders billing", "resume", {}),
    ("disconnect orders billing clerk", "disconnect", {"consumer": "clerk"}),
    ("disconnect orders billing --key 9 --tell moved", "disconnect", {"consumer_key": 9, "reason": "moved"}),
    ("redeliver orders billing clerk", "redeliver", {"consumer": "clerk"}),
    ("redeliver orders billing --key 9", "redeliver", {"consumer_key": 9}),
    ("dead-letter orders billing --id 5:3:1", "send_to_dead_letters", {"id": "5:3:-1:1"}),
    (
        "dead-letter orders billing --id 5:3 --to dead",
        "send_to_dead_letters",
        {"id": "5:3", "to_topic": "persistent://public/default/dead"},
    ),
    ("redrive orders billing", "redrive", {}),
    (
        f"redrive orders billing --to mail --key k --property a=b=c --after {NOON} --before {NOON} {FIGURES}",
        "redrive",
        {
            "to_topic": "persistent://public/default/mail", "key": "k", "property_name": "a", "property_value": "b=c",
            "after_ms": NOON_MS, "before_ms": NOON_MS, "most": 5, "rate": 2, "max_redrives": 4,
        },
    ),
    ("redrive orders billing --id 5:3", "redrive", {"id": "5:3"}),
    ("redrive orders billing --property a", "redrive", {"property_name": "a"}),
    (
        "subscriptions create orders billing",
        "create_subscription",
        {"name": "billing", "type": "Shared", "to": "latest"},
    ),
    (
        "subscriptions create orders billing --earliest --type Failover --property team=a=b",
        "create_subscription",
        {"name": "billing", "type": "Failover", "to": "earliest", "properties": {"team": "a=b"}},
    ),
    ("subscriptions delete orders billing", "delete_subscription", {"force": False}),
    ("subscriptions delete orders billing --force", "delete_subscription", {"force": True}),
    ("bookmarks create orders launch", "create_bookmark", {"name": "launch", "to": "latest"}),
    (
        "bookmarks create orders launch --back 1h --keep 30d",
        "create_bookmark",
        {"name": "launch", "to": "back_time", "back_ms": 3_600_000, "keep_ms": 2_592_000_000},
    ),
    (
        "bookmarks create orders launch --keep-until-deleted",
        "create_bookmark",
        {"name": "launch", "to": "latest", "keep_ms": 0},
    ),
    ("bookmarks delete orders launch", "delete_bookmark", {"name": "launch"}),
    (
        "policies set shop/eu message_ttl_ms=60000 --unset deduplication --unset delayed_delivery",
        "set_namespace_policies",
        {"set": {"message_ttl_ms": "60000"}, "unset": "deduplication,delayed_delivery"},
    ),
    (
        "policies set orders message_ttl_ms=60000",
        "set_topic_policies",
        {"set": {"message_ttl_ms": "60000"}, "unset": ""},
    ),
    ("namespaces create shop/eu", "create_namespace", {}),
    ("namespaces delete shop/eu", "delete_namespace", {}),
    ("topics create shop/eu/orders --partitions 4", "create_topic", {"name": "orders", "partitions": 4}),
    ("topics grow orders 8", "update_partitions", {"partitions": 8}),
    ("topics terminate orders", "terminate", {}),
    ("topics truncate orders", "truncate", {}),
    ("topics unload orders", "unload", {}),
    ("compact orders", "compact", {}),
    ("compact orders --delete", "delete_compaction", {}),
    ("topics delete orders", "delete_topic", {"force": False, "subscriptions": False}),
    ("topics delete orders --force --subscriptions", "delete_topic", {"force": True, "subscriptions": True}),
    ("pipeline run export orders", "run_job", {"job": "export", "options": {}}),
    (
        "pipeline run export orders --set to=x --set format=csv --follow",
        "run_job",
        {"job": "export", "options": {"to": "x", "format": "csv"}},
    ),
    ("pipeline continue 12", "continue_job", {"run": 12}),
    ("pipeline cancel 12", "cancel_job", {"run": 12}),
    (
        "pipeline schedule export orders --every 60 --set to=a=b",
        "schedule_job",
        {"job": "export", "options": {"to": "a=b"}, "every_minutes": 60},
    ),
    ("pipeline unschedule 3", "unschedule_job", {"schedule": 3}),
    ("acts plan skip orders messages=3 --subscription billing", "skip", {"messages": 3}),
    ("acts plan skip_one orders id=5:3 --subscription billing", "skip_one", {"id": "5:3"}),
    ("acts plan delete_topic orders force=true", "delete_topic", {"force": True}),
    (
        """acts plan set_namespace_policies shop/eu 'set={"message_ttl_ms":"1"}'""",
        "set_namespace_policies",
        {"set": {"message_ttl_ms": "1"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "kind", "parameters"), LINES, ids=[line for line, _, _ in LINES])
def test_each_command_plans_the_act_of_its_name(
    line: str, kind: str, parameters: dict[str, Any], console: FakeConsole
) -> None:
    console.answers["GET pipeline/runs/12"] = {"topic_name": ORDERS}
    console.answers["GET pipeline/schedules"] = {"schedules": [{"id": 3, "topic_name": ORDERS}]}
    done = CliRunner().invoke(cli, [*shlex.split(line), "--plan-only", "--reason", "why"], prog_name="vela")
    assert done.exit_code == 0, done.output
    (asked,) = [each for each in console.asked if each.method == "POST"]
    scope = find_kind(kind).scope
    about = {"topic": "shop/eu" if scope in (Scope.NAMESPACE, Scope.NEW_NAMESPACE) else ORDERS}
    if scope is Scope.SUBSCRIPTION:
        about["subscription"] = "billing"
    assert asked.body == {"kind": kind, "parameters": parameters, "reason": "why", **about}
    find_kind(kind).read(parameters)


def test_every_kind_has_a_command() -> None:
    asked_for = {name for name, kind in KINDS.items() if kind.can_be_requested}
    # `vela produce` uses the client, so only `vela acts plan` plans the act `publish`.
    assert {kind for line, kind, _ in LINES if not line.startswith("acts ")} == asked_for - {"publish"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("reset orders billing", "Say where, with exactly one of --earliest, --latest"),
        ("reset orders billing --earliest --latest", "Say where, with exactly one"),
        ("reset orders billing --back 15", "'15' is not a length of time: write 500ms, 90s"),
        ("reset orders billing --time soon", "'soon' is not a time"),
        ("reset a/b billing --earliest", "'a/b' is not a topic name: write t, tenant"),
        ("reset orders", "Missing argument 'SUBSCRIPTION'"),
        ("shift orders billing", "--back or --forward"),
        ("shift orders billing --back 0", "0 is not in the range x>=1"),
        ("skip orders billing", "--messages or --id"),
        ("skip orders billing --id latest", "not a message id"),
        ("skip orders billing --messages 1 --id 5:3", "--messages or --id"),
        ("expire orders billing --older 1d --id 5:3", "exactly one of --older, --before and --id"),
        ("disconnect orders billing", "with CONSUMER or with --key"),
        ("redeliver orders billing clerk --key 3", "with CONSUMER or with --key"),
        ("bookmarks create orders b --bookmark c", "No such option"),
        ("bookmarks create orders b --keep 1d --keep-until-deleted", "not both"),
        (
            "bookmarks create orders b --keep 0s",
            "To pin the messages until the bookmark is deleted, use --keep-until-deleted",
        ),
        ("namespaces create shop", "'shop' is not a namespace's name: write it as tenant/namespace"),
        ("topics create orders --partitions 10001", "10001 is not in the range 0<=x<=10000"),
        ("topics grow orders 10001", "10001 is not in the range 1<=x<=10000"),
        ("subscriptions create orders s --property x", "write it as NAME=VALUE"),
        ("policies set orders", "Name a policy to set or to unset"),
        ("policies set orders a", "write it as POLICY=VALUE"),
        ("policies set orders a=1 a=2", "given twice"),
        ("policies set a/b/c/d a=1", "'a/b/c/d' is not a topic name: write t"),
        ("topics create ../../x", "tenant '..' may have letters, digits and -=:._, but not only dots"),
        ("topics create non-persistent://a/b/c", "You need not create"),
        ("acts plan skip orders messages", "write it as NAME=VALUE"),
        ("clear orders billing --json", "add --yes or --plan-only"),
        ("clear orders billing --yes --plan-only", "not both"),
        ("clear orders billing --frobnicate", "No such option"),
        ("frobnicate", "No such command"),
    ],
)
def test_a_wrong_command_line_sends_no_request(
    line: str, says: str, vela: Vela, console: FakeConsole
) -> None:
    done = vela(line)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert (done.stdout, console.asked) == ("", [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["consume", "orders", "s\x01"], "the subscription name 's\\x01' contains a control character"),
        (["peek", "orders", "s\n"], "'s\\n' is not a valid subscription name: use one without spaces"),
        (["subscriptions", "create", "orders", "a\x01b"], "contains a control character: remove it"),
        (["subscriptions", "create", "orders", ""], "'' is not a valid subscription name"),
        (
            ["bookmarks", "create", "orders", "a\x7fb"],
            "the bookmark name 'a\\x7fb' contains a control character",
        ),
        (["consume", "orders", "s", "--consumer-name", "a\x01b"], "the consumer name"),
        (["produce", "orders", "m", "--producer-name", "a\x01b"], "the producer name"),
    ],
)
def test_a_name_that_no_broker_takes_is_a_usage_error(
    words: list[str], says: str, console: FakeConsole
) -> None:
    done = CliRunner().invoke(cli, words, prog_name="vela")
    assert (done.exit_code, says in done.stderr, console.asked) == (2, True, []), done.stderr


def test_an_act_on_one_topic_offers_no_partitions(vela: Vela, console: FakeConsole) -> None:
    assert "--partition" in vela("clear --help").stdout
    assert "--partition" not in vela("redrive --help").stdout
    assert vela("redrive orders billing --partition 0").exit_code == 2
    assert console.asked == []
