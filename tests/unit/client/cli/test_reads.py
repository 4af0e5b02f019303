"""Commands that only read: tables for people, JSON for programs."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, an_act, problem

TOPIC = "topics/persistent/public/default/orders"


def a_topic(name: str = "orders", **changes: Any) -> dict[str, Any]:
    return {
        "name": f"persistent://public/default/{name}",
        "partitions": 0,
        "backlog_messages": 1234,
        "message_rate_in": 2.5,
        "byte_rate_in": 2500.0,
        "stored_bytes": 1_500_000,
        "producers": 1,
        "last_append_ms": 0,
        "updated_ms": None,
        "subscriptions": 1,
        "consumers": None,
        "message_rate_acked": None,
        "worst_subscription": "billing",
        "state": "stuck",
        "state_since_ms": 1,
        **changes,
    }


def test_a_list_is_a_table(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET topics"] = {"topics": [a_topic()], "next_after": None}
    heading, row = vela("topics list").stdout.splitlines()
    assert heading.split()[:3] == ["topic", "state", "partitions"]
    assert row.split() == ["orders", "stuck", "1,234", "billing", "2.5/s", "–", "1", "–", "1.5", "MB", "–"]


def test_a_list_goes_through_pages_and_says_when_there_is_more(vela: Vela, console: FakeConsole) -> None:
    pages: list[dict[str, Any]] = [
        {"topics": [a_topic(f"t{number}") for number in range(first, first + 500)], "next_after": after}
        for first, after in ((0, "a"), (500, "b"), (1000, None))
    ]
    console.answers["GET topics"] = list(pages)
    done = vela("topics list --limit 0 --json")
    assert [json.loads(line)["name"][-5:] for line in done.stdout.splitlines()][-1] == "t1499"
    assert [each.query.get("after") for each in console.asked] == [None, "a", "b"]
    console.asked.clear()
    console.answers["GET topics"] = {"topics": pages[0]["topics"][:3], "next_after": None}
    done = vela(
        "topics list --limit 2 --search t --namespace a/b --subscription billing --with-backlog --state stuck"
        " --sort rate"
    )
    assert console.asked[0].query == {
        "limit": "3",
        "q": "t",
        "namespace": "a/b",
        "subscription": "billing",
        "backlog": "true",
        "state": "stuck",
        "sort": "rate",
    }
    assert (len(done.stdout.splitlines()), "more than 2: --limit 0 lists all" in done.stderr) == (3, True)


def a_consumer(name: str = "greedy", **changes: Any) -> dict[str, Any]:
    return {
        "key": 7,
        "name": name,
        "topic_name": "persistent://public/default/orders",
        "subscription_id": 3,
        "subscription_name": "billing",
        "flags": ["ack-less", "hoarding"],
        "permits": 0,
        "unacked_messages": 5000,
        "oldest_delivered_ms": 0,
        "message_rate_out": 0.0,
        "message_rate_acked": 1.5,
        "message_rate_redelivered": 0.0,
        "last_flow_ms": 0,
        "last_ack_ms": 0,
        "address": "10.0.0.9:5000",
        "client_version": "",
        "connected_ms": 0,
        **changes,
    }


def test_consumers_are_listed_with_what_is_wrong(vela: Vela, console: FakeConsole) -> None:
    reader = a_consumer("reads", subscription_id=None, flags=[])
    console.answers["GET consumers"] = {"consumers": [a_consumer(), reader], "next_after": None}
    done = vela(
        "consumers --topic ord --subscription bill --name g --address 10. --client CPP --flag hoarding --sort oldest"
    )
    _, row, read = done.stdout.splitlines()
    assert row.split()[:9] == [
        "greedy",
        "7",
        "billing",
        "orders",
        "acks",
        "nothing,",
        "hoarding",
        "0",
        "5,000",
    ]
    assert "a reader" in read
    assert console.asked[0].query == {
        "limit": "51",
        "topic": "ord",
        "subscription": "bill",
        "name": "g",
        "address": "10.",
        "version": "CPP",
        "flag": "hoarding",
        "sort": "oldest",
    }


def test_producers_are_listed_with_why_they_were_refused(vela: Vela, console: FakeConsole) -> None:
    producer = {
        "key": 9,
        "name": "till",
        "topic_name": "persistent://public/default/orders",
        "flags": ["refused"],
        "last_error": "TopicTerminatedError: it takes no more messages",
        "message_rate_in": 2.5,
        "byte_rate_in": 250.0,
        "messages_in": 1200,
        "last_sequence_id": -1,
        "access_mode": "Exclusive",
        "deduplicated": True,
        "last_send_ms": 0,
        "address": "10.0.0.8:4000",
        "client_version": "Pulsar-CPP-v3.8.0",
        "connected_ms": 0,
    }
    console.answers["GET producers"] = {"producers": [producer] * 3, "next_after": None}
    done = vela("producers --flag refused --sort rate --limit 2")
    rows = done.stdout.splitlines()[1:]
    assert len(rows) == 2
    assert "TopicTerminatedError: it takes no more messages" in rows[0]
    assert "Exclusive, deduplicated" in rows[0]
    assert "more than 2: --limit 0 lists all" in done.stderr


@pytest.mark.parametrize(
    ("line", "path", "body", "says"),
    [
        ("consumers", "consumers", {"consumers": [], "next_after": None}, "no consumer is connected"),
        ("consumers --flag old", "consumers", {"consumers": [], "next_after": None}, "no consumer matches"),
        ("producers", "producers", {"producers": [], "next_after": None}, "no producer is connected"),
        ("producers --name x", "producers", {"producers": [], "next_after": None}, "no producer matches"),
        ("topics list", "topics", {"topics": [], "next_after": None}, "there are no topics yet"),
        ("topics list --search x", "topics", {"topics": [], "next_after": None}, "no topic matches"),
        (
            "subscriptions list orders",
            f"{TOPIC}/subscriptions",
            {"subscriptions": [], "next_after": None},
            "no sub",
        ),
        ("bookmarks list orders", TOPIC, {"bookmarks": []}, "no bookmark"),
        ("acts list", "acts", {"acts": [], "next_before": None}, "there are no acts yet"),
        ("peek orders billing", f"{TOPIC}/subscriptions/billing/peek", {"messages": []}, "no message waits"),
    ],
)
def test_an_empty_list_says_so_on_standard_error(
    line: str, path: str, body: dict[str, Any], says: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers[f"GET {path}"] = body
    done = vela(line)
    assert (done.exit_code, done.stdout, says in done.stderr) == (0, "", True)
    done = vela(f"{line} --json")
    assert (done.exit_code, done.output) == (0, "")


@pytest.mark.parametrize(
    ("where", "path"),
    [("orders", f"{TOPIC}/policies"), ("shop/..eu", "namespaces/shop/..eu/policies")],
)
def test_policies_are_shown_with_the_place_where_each_is_set(
    where: str, path: str, vela: Vela, console: FakeConsole
) -> None:
    rows = [
        {"name": "retention_ms", "value": 604_800_000, "words": "7 days", "set_on": "namespace"},
        {"name": "delayed_delivery", "value": False, "words": "false", "set_on": "topic"},
        {"name": "max_producers", "value": 0, "words": "no limit", "set_on": None},
    ]
    found = {"name": where, "words": ["acked messages are kept 7 days"]}
    console.answers[f"GET {path}"] = {**found, "policies": rows}
    shown = [line.split() for line in vela(f"policies show {where}").stdout.splitlines()]
    assert shown[0] == ["acked", "messages", "are", "kept", "7", "days"]
    assert shown[2:] == [["retention_ms", "7", "days", "namespace"], ["delayed_delivery", "false", "topic"],
                         ["max_producers", "no", "limit", "broker", "default"]]  # fmt: skip
    assert json.loads(vela(f"policies show {where} --json").stdout)["policies"] == rows
    assert json.loads(vela(f"policies show {where} --set --json").stdout)["policies"] == rows[:2]
    console.answers[f"GET {path}"] = {**found, "policies": rows[2:]}
    none = vela(f"policies show {where} --set")
    assert (none.stdout, none.stderr) == ("", "no policies are set\n")


def test_namespaces_are_listed_with_their_sums(vela: Vela, console: FakeConsole) -> None:
    row = {
        "name": "shop/eu",
        "protected": True,
        "topics": 12,
        "subscriptions": 12_000,
        "backlog_messages": 3400,
        "stored_bytes": None,
        "message_rate_in": 2.5,
    }
    console.answers["GET namespaces"] = {"namespaces": [row], "next_after": None}
    heading, shown = vela("namespaces list").stdout.splitlines()
    assert heading.split() == ["namespace", "topics", "subscriptions", "backlog", "in", "stored", "protected"]
    assert " ".join(shown.split()) == "shop/eu 12 12,000 3,400 2.5/s – yes"
    assert json.loads(vela("namespaces list --json").stdout) == row


def test_an_invalid_name_is_refused_before_a_request(vela: Vela, console: FakeConsole) -> None:
    done = vela("policies show a/b/c/d")
    assert (done.exit_code, console.asked, "or tenant/namespace" in done.stderr) == (2, [], True)


def test_the_option_once_prints_the_statistics_once(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET stats"] = {
        "topics": 1, "producers": 1, "message_rate_in": 2.5, "byte_rate_in": 10.0, "stored_bytes": 9, "consumers": 2,
        "backlog_messages": 7, "unacked_messages": 1, "message_rate_out": 1.0, "message_rate_acked": 1.0,
        "broker": {"is_running": False, "host": None, "pid": None, "seen_at": None}, "waiting_acts": 2,
        "troubles": ["broker-stopped", "beat"],
    }  # fmt: skip
    console.answers["GET topics"] = {"topics": [a_topic()], "next_after": "x"}
    shown = vela("stats --once").stdout
    assert "no broker is running" in shown
    assert "Celery beat is silent" in shown
    assert "1 topic: in 2.5/s" in shown
    assert "2 acts wait for a broker" in shown
    assert "there are more topics" in shown
    document = json.loads(vela("stats --json").stdout)  # printed once, since the output is not a terminal
    assert (document["totals"]["backlog_messages"], len(document["topics"]["topics"])) == (7, 1)


def test_statistics_of_a_topic_list_its_subscriptions(vela: Vela, console: FakeConsole) -> None:
    row = {
        "name": "billing", "type": "Shared", "paused": False, "cursors": 1, "acked_messages": 4, "backlog_messages": 12,
        "backlog_bytes": 1, "consumers": 1, "unacked_messages": 2, "permits": 998, "replay_entries": 0,
        "message_rate_out": 4.0, "message_rate_acked": 0.0, "messages_redelivered": 3, "updated_ms": None,
        "oldest_unacked_ms": None,
        "standing": {"state": "stuck", "tone": "bad", "sentence": "", "since_ms": 1, "drain_s": None},
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/stats"] = {
        "topic": a_topic(),
        "subscriptions": [row, {**row, "name": "new"}],
        "next_after": None,
    }
    lines = vela("stats orders").stdout.splitlines()  # printed once, since the output is not a terminal
    assert lines[0].startswith("orders: in 2.5/s, acked –, 1 producer")
    assert lines[3].split() == ["billing", "stuck", "12", "–", "1", "2", "998", "4.0/s", "0/s", "3", "–"]
    assert lines[4].split()[:2] == ["new", "stuck"]


@pytest.mark.parametrize("given", ["--search x", "--sort name", "--limit 30"])
def test_options_about_the_list_are_refused_for_one_topic(
    given: str, vela: Vela, console: FakeConsole
) -> None:
    done = vela(f"stats orders {given}")
    assert (done.exit_code, console.asked) == (2, [])
    assert f"{given.split()[0]} applies to the list of topics" in done.stderr


def test_the_content_of_a_message_cannot_control_the_terminal(vela: Vela, console: FakeConsole) -> None:
    message = {
        "id": "1:0", "ledger_id": 1, "entry_id": 0, "batch_index": -1, "batch_size": 1, "append_ms": 1, "publish_ms": 1,
        "deliver_at_ms": 5, "size_bytes": 3, "key": "k\x1b]0;x\nid  9:9",
        "properties": [["a\x1b[31m\x07\nid  9:9", "\x07"]], "producer": "",
        "preview": "one\ntwo [bold]three[/bold]", "is_text": True, "trouble": "",
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/subscriptions/billing/peek"] = {"messages": [message]}
    console.answers[f"GET {TOPIC}/examine"] = message
    peeked, examined = vela("peek orders billing").stdout, vela("examine orders").stdout
    assert {"\x1b", "\x07"} & set(peeked + examined) == set()
    assert (len(peeked.splitlines()), sum("9:9" in line for line in examined.splitlines())) == (2, 2)
    assert [line.split()[0] for line in examined.splitlines() if "9:9" in line] == ["key", "property"]
    assert "one⏎two [bold]three[/bold]" in peeked
    assert "property a\\x1b[31m" in examined
    assert [each.strip() for each in examined.splitlines() if "two" in each] == ["two [bold]three[/bold]"]
    assert json.loads(vela("peek orders billing --json").stdout) == message


def test_the_log_of_acts_goes_through_pages(vela: Vela, console: FakeConsole) -> None:
    def row(act_id: int) -> dict[str, Any]:
        return {
            **an_act(id=act_id), "topic_name": "persistent://public/default/orders", "subscription_name": "billing",
            "undo_of_id": None, "undoable": False, "undone_by_id": 9 if act_id == 8 else None,
        }  # fmt: skip

    console.answers["GET acts"] = [
        {"acts": [row(9), row(8)], "next_before": 8},
        {"acts": [row(7)], "next_before": None},
    ]
    shown = vela("acts list --limit 0 --state planned --kind reset --search x").stdout.splitlines()
    assert [line.split()[0] for line in shown[1:]] == ["9", "8", "7"]
    assert "reset to the beginning  billing on orders" in shown[1]
    assert ["undone by 9" in line for line in shown[1:]] == [False, True, False]
    assert [each.query for each in console.asked] == [
        {"q": "x", "kind": "reset", "state": "planned"},
        {"q": "x", "kind": "reset", "state": "planned", "before": "8"},
    ]


def test_the_log_of_acts_is_written_as_a_file(vela: Vela, console: FakeConsole) -> None:
    file = "act,kind\r\n7,reset\r\n# stopped_by end\r\n"
    headers = {"Content-Type": "text/csv", "Content-Disposition": 'attachment; filename="acts.csv"'}
    console.answers["GET acts/export"] = httpx.Response(200, text=file, headers=headers)
    done = vela("acts export --format csv --search x --kind reset --state applied --before 9")
    assert (done.exit_code, done.stdout_bytes.decode()) == (0, file)
    assert console.asked[-1].query == {
        "q": "x", "kind": "reset", "state": "applied", "before": "9", "format": "csv",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (problem(503, "TooManyExports", "two exports are being sent"), "two exports are being sent"),
        (httpx.Response(200, text="<html>", headers={"Content-Type": "text/html"}), "is not Vela's console"),
        (httpx.Response(200, json={"acts": []}), "is not Vela's console"),
    ],
)
def test_a_file_without_acts_is_an_error(
    answer: httpx.Response, says: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers["GET acts/export"] = answer
    done = vela("acts export")
    assert (done.exit_code != 0, done.stdout, says in done.stderr) == (True, "", True)


@pytest.mark.usefixtures("zone")
def test_times_for_people_have_this_computers_zone_and_json_has_utc(vela: Vela, console: FakeConsole) -> None:
    utc, here = "2026-01-01T00:00:00.500Z", "2026-01-01 03:30:00+03:30"
    act = {"created_at": utc, "topic_name": "a/b", "subscription_name": "", "undo_of_id": None,
           "undone_by_id": None}  # fmt: skip
    bookmark = {"name": "b", "id": "1:0", "until": utc, "who": "ada"}
    topic = {
        **a_topic(), "created_at": utc, "terminated_at": utc, "bookmarks": [bookmark], "policies": {},
        "namespace_policies": {}, "partition_topics": [], "producing": [],
    }  # fmt: skip
    console.answers["GET acts"] = {"acts": [an_act(**act)], "next_before": None}
    console.answers["GET acts/7"] = an_act(created_at=utc)
    console.answers[f"GET {TOPIC}"] = topic
    for line, times in (
        ("acts list", 1),
        ("acts show 7", 1),
        ("topics show orders", 3),
        ("bookmarks list orders", 1),
    ):
        shown = vela(line).stdout
        assert (shown.count(here), "Z" in shown) == (times, False), shown
        assert utc in vela(f"{line} --json").stdout


def test_numbers_that_do_not_change_are_asked_with_their_etag(console: FakeConsole) -> None:
    from vela.cli.commands.stats import _Look
    from vela.cli.console import ConsoleApi
    from vela.cli.settings import Settings

    asked = Settings(url="", console_url="http://127.0.0.1:8000", user="", password="")
    with ConsoleApi(asked) as api:
        look = _Look(api, {"stats": (f"{TOPIC}/stats", {})})
        console.answers[f"GET {TOPIC}/stats"] = [
            httpx.Response(200, json={"n": 1}, headers={"ETag": '"a"'}),
            httpx.Response(304, headers={"ETag": '"a"'}),
            httpx.Response(200, json={"n": 2}, headers={"ETag": '"b"'}),
        ]
        assert [look.read() for _ in range(3)] == [{"n": 1}, {"n": 1}, {"n": 2}]
    assert [each.headers.get("if-none-match") for each in console.asked] == [None, '"a"', '"a"']


def test_why_prints_findings_with_evidence_and_commands(vela: Vela, console: FakeConsole) -> None:
    document = {
        "topic": "persistent://public/default/orders", "subscription": "billing", "at_ms": 1,
        "findings": [
            {"rule": "poison", "severity": "slow", "sentence": "The oldest\x1b[31m one fails.",
             "evidence": [{"label": "redelivered", "value": 1200, "unit": "times"},
                          {"label": "acked", "value": 2.5, "unit": "per second"},
                          {"label": "backlog", "value": 2500, "unit": "bytes"},
                          {"label": "waits for", "value": 90, "unit": "seconds"},
                          {"label": "last ack", "value": 0, "unit": "time"},
                          {"label": "now at", "value": "", "unit": "text"}],
             "cures": [{"text": "Skip it", "act": "skip_one", "parameters": {"id": "7:11"}, "block": "", "topic": ""},
                       {"text": "Disconnect a b", "act": "disconnect", "parameters": {"consumer": "a b"}, "block": "",
                        "topic": ""},
                       {"text": "Fix the consumer.", "act": "", "parameters": {}, "block": "next", "topic": ""}],
             "runbook": "http://vela/help/runbook/poison", "partition": None, "partitions": []},
            {"rule": "timers_silent", "severity": "notice", "sentence": "Beat is silent.", "evidence": [], "cures": [],
             "runbook": "http://vela/help/runbook/timers-silent", "partition": None, "partitions": []},
        ],
        "partitions_left_out": 0,
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/subscriptions/billing/diagnosis"] = document
    lines = vela("why orders billing").stdout.splitlines()
    assert lines[0] == "warning: The oldest\\x1b[31m one fails."
    assert [line.split()[-1] for line in lines[1:7]] == ["times", "2.5/s", "kB", "min", "–", "–"]
    assert lines[7:11] == [
        "  → Skip it: vela skip orders billing --id 7:11",
        "  → Disconnect a b: vela disconnect orders billing 'a b'",
        "  → Fix the consumer.",
        "  runbook: http://vela/help/runbook/poison",
    ]
    assert lines[-2:] == ["notice: Beat is silent.", "  runbook: http://vela/help/runbook/timers-silent"]
    assert json.loads(vela("why orders billing --json").stdout) == document


def test_a_cure_without_a_place_says_where_to_write_it(vela: Vela, console: FakeConsole) -> None:
    cure = {"text": "Move the cursor past the gap", "act": "reset", "parameters": {}}
    finding = {
        "rule": "log_gap", "severity": "stopped", "sentence": "Entries are missing.", "evidence": [], "cures": [cure],
        "runbook": "http://vela/help/runbook/log-gap", "partition": None, "partitions": [],
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/subscriptions/billing/diagnosis"] = {
        "findings": [finding],
        "partitions_left_out": 0,
    }
    assert (
        "  → Move the cursor past the gap: vela reset orders billing --id LEDGER:ENTRY"
        in vela("why orders billing").stdout.splitlines()
    )


def test_why_names_the_partitions_and_acts_on_the_one_with_the_numbers(
    vela: Vela, console: FakeConsole
) -> None:
    cure = {"text": "Disconnect w", "act": "disconnect", "parameters": {"consumer": "w"}}
    finding = {
        "rule": "hoarder", "severity": "slow", "sentence": "w hoards.", "evidence": [], "cures": [cure],
        "runbook": "http://vela/help/runbook/hoarder", "partition": 3, "partitions": [1, 3],
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/subscriptions/billing/diagnosis"] = {
        "findings": [finding, {**finding, "partition": 0, "partitions": [0]}],
        "partitions_left_out": 12,
    }
    shown = vela("why orders billing")
    lines = shown.stdout.splitlines()
    assert lines[1] == "  on partitions 1, 3; these are the numbers of partition 3"
    assert lines[2] == "  → Disconnect w: vela disconnect orders-partition-3 billing w"
    assert lines[6] == "  on partition 0"
    assert "not looked at: 12 partitions in a better state" in shown.stderr


def a_message(**changes: Any) -> dict[str, Any]:
    return {
        "id": "1:0", "append_ms": 1, "key": "4711", "size_bytes": 3, "preview": "{}", "trouble": "", "state": None,
        "columns": {}, **changes,
    }  # fmt: skip


def a_page(*found: dict[str, Any], after: str | None = None, **looked: Any) -> dict[str, Any]:
    return {
        "messages": list(found),
        "looked_at": {
            "entries": 1000, "stored_entries": 9000, "by_key_hash": False, "not_searched": {},
            "stopped_by": "limit" if after else "end", **looked
        },
        "next_after": after,
    }  # fmt: skip


@pytest.mark.parametrize("reason", ["cursor", "time", "database"])
def test_a_search_that_stops_without_a_next_page_is_not_called_whole(
    reason: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers[f"GET {TOPIC}/messages"] = [a_page(entries=0, stopped_by=reason)]
    done = vela("find orders --key 4711")
    assert done.stderr == "0 messages found, scanned: 0 of 9,000 entries; there may be more\n"


def test_a_search_goes_on_until_it_has_enough(vela: Vela, console: FakeConsole) -> None:
    console.answers[f"GET {TOPIC}/messages"] = [
        a_page(after="1:5@1"),
        a_page(a_message(state={"state": "in flight", "consumer": "clerk"}), after="1:7@1", by_key_hash=True),
        a_page(a_message(id="1:9"), after="1:9@1", by_key_hash=True, not_searched={"corrupt": 2}),
    ]
    done = vela("find orders --key 4711 -s billing -n 2 --property a=b --from 1:4:3 --older")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["id", "1:0", "1:9"]
    assert "in flight at clerk" in done.stdout
    assert done.stderr == (
        "2 messages found, by key hash: 3,000 of 9,000 entries, 2 corrupt not searched; there may be more\n"
    )
    assert [each.query.get("after") for each in console.asked] == [None, "1:5@1", "1:7@1"]
    assert console.asked[0].query == {
        "limit": "2",
        "key": "4711",
        "prop": "a=b",
        "order": "older",
        "start": "id",
        "at": "1:4:3",
        "sub": "billing",
    }
    assert console.asked[2].query["limit"] == "1"


def test_chosen_columns_replace_key_and_payload(vela: Vela, console: FakeConsole) -> None:
    console.answers[f"GET {TOPIC}/messages"] = a_page(
        a_message(columns={"$.order.id": "7", "property:region": None}),
        a_message(id="1:1", trouble="encrypted", columns={"$.order.id": None, "property:region": "eu"}),
    )
    asked = "find orders --column $.order.id --column property:region"
    lines = [line.split() for line in vela(asked).stdout.splitlines()]
    assert lines[0] == ["id", "stored", "$.order.id", "property:region"]
    assert [(line[0], *line[-2:]) for line in lines[1:]] == [("1:0", "7", "–"), ("1:1", "encrypted", "eu")]
    assert [value for name, value in console.asked[0].pairs if name == "column"] == [
        "$.order.id",
        "property:region",
    ]
    assert json.loads(vela(f"{asked} --json").stdout.splitlines()[1])["columns"]["property:region"] == "eu"


@pytest.mark.parametrize("option", ["--key", "--property", "--json-path", "--value", "--text"])
def test_a_search_for_nothing_is_not_a_search_for_everything(
    option: str, vela: Vela, console: FakeConsole
) -> None:
    done = vela(f"find orders {option}=")
    assert (done.exit_code, console.asked) == (2, [])
    assert f"{option} is empty" in done.stderr


def test_a_search_that_finds_nothing_says_how_far_it_looked(vela: Vela, console: FakeConsole) -> None:
    console.answers[f"GET {TOPIC}/messages"] = a_page()
    done = vela("find orders --holes -s billing --json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert console.asked[0].query == {"limit": "50", "start": "holes", "sub": "billing"}
    assert vela("find orders --next").exit_code == 2
    assert "--op needs --json-path." in vela("find orders --key 7 --op >").stderr
    assert "--value needs --json-path." in vela("find orders --value x").stderr
    assert vela("find orders --next -s billing --from earliest").exit_code == 2
    vela("find orders --from 2026-11-20T09:00Z --text x")
    assert console.asked[-1].query["at"] == "2026-11-20T09:00:00+00:00"


def test_one_message_by_its_id_shows_its_state_on_each_subscription(vela: Vela, console: FakeConsole) -> None:
    state = {
        "consumer": None,
        "delivered_ms": None,
        "redelivery_count": None,
        "due_ms": None,
        "is_hole": False,
    }
    message = {
        **a_message(preview="cut"), "publish_ms": 1, "deliver_at_ms": 0, "producer": "p", "properties": [],
        "payload": "whole",
        "states": [
            {**state, "subscription": "a", "state": "unacked", "is_hole": True},
            {
                **state, "subscription": "b", "state": "in flight", "consumer": "c", "delivered_ms": 1,
                "redelivery_count": 2,
            },
        ],
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/messages/1:0:-1:3"] = message
    told = [
        {"at_ms": 1000, "until_ms": 1000, "words": "delivered to c (10.0.0.7:4000)"},
        {"at_ms": 2000, "until_ms": 2500, "words": "acked by c"},
    ]
    left_out = {"at_ms": 1000, "until_ms": 2000, "events": 12}
    console.answers[f"GET {TOPIC}/messages/1:0:-1:3/story"] = {
        "words": "Every delivery is recorded.",
        "subscriptions": [
            {"subscription": "a", "events": [], "left_out": None},
            {"subscription": "b", "events": told, "left_out": left_out},
        ],
    }
    lines = vela("examine orders --id 1:0:3").stdout.splitlines()
    assert next(line for line in lines if line.startswith("on a")).split()[2:] == ["unacked;", "a", "hole"]
    assert "in flight at c since" in next(line for line in lines if line.startswith("on b"))
    assert next(line for line in lines if line.startswith("on b")).endswith(", redelivered 2 times")
    begin = next(number for number, line in enumerate(lines) if line.startswith("story on b"))
    assert lines[begin].endswith(": delivered to c (10.0.0.7:4000)")
    assert re.fullmatch(r" +1970-.* to 1970-.*\.500.*: acked by c", lines[begin + 1])
    assert lines[begin + 2].strip() == "not recorded: 12 events of this message or its neighbours"
    assert lines[begin + 3].split(maxsplit=1) == ["recorded", "Every delivery is recorded."]
    assert not any(line.startswith("story on a") for line in lines)
    assert lines[-1].split() == ["payload", "whole"]
