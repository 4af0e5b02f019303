"""Lists, stats and looks: tables for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, an_act

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
    done = vela("topics list --limit 2 --search t --namespace a/b --with-backlog --state stuck --sort rate")
    assert console.asked[0].query == {
        "limit": "3",
        "q": "t",
        "namespace": "a/b",
        "backlog": "true",
        "state": "stuck",
        "sort": "rate",
    }
    assert (len(done.stdout.splitlines()), "more than 2: --limit 0 lists all" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("line", "path", "body", "says"),
    [
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
def test_an_empty_list_says_so_beside_the_output(
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
def test_policies_in_force(where: str, path: str, vela: Vela, console: FakeConsole) -> None:
    rows = [
        {"name": "max_consumers", "value": 9, "set_on": "namespace"},
        {"name": "delayed_delivery", "value": False, "set_on": "topic"},
        {"name": "max_producers", "value": 0, "set_on": None},
    ]
    console.answers[f"GET {path}"] = {"name": where, "policies": rows}
    shown = [line.split() for line in vela(f"policies show {where}").stdout.splitlines()]
    assert shown[1:] == [["max_consumers", "9", "namespace"], ["delayed_delivery", "false", "topic"],
                         ["max_producers", "0"]]  # fmt: skip
    assert json.loads(vela(f"policies show {where} --json").stdout)["policies"] == rows
    assert json.loads(vela(f"policies show {where} --set --json").stdout)["policies"] == rows[:2]
    console.answers[f"GET {path}"] = {"name": where, "policies": rows[2:]}
    none = vela(f"policies show {where} --set")
    assert (none.stdout, none.stderr) == ("", "no policies are set\n")


def test_policies_of_what_is_no_name(vela: Vela, console: FakeConsole) -> None:
    done = vela("policies show a/b/c/d")
    assert (done.exit_code, console.asked, "or tenant/namespace" in done.stderr) == (2, [], True)


def test_stats_once(vela: Vela, console: FakeConsole) -> None:
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
    document = json.loads(vela("stats --json").stdout)  # no terminal: once
    assert (document["totals"]["backlog_messages"], len(document["topics"]["topics"])) == (7, 1)


def test_stats_of_a_topic(vela: Vela, console: FakeConsole) -> None:
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
    lines = vela("stats orders").stdout.splitlines()  # the runner's output is no terminal: once
    assert lines[0].startswith("orders: in 2.5/s, acked –, 1 producer")
    assert lines[3].split() == ["billing", "stuck", "12", "–", "1", "2", "998", "4.0/s", "0/s", "3", "–"]
    assert lines[4].split()[:2] == ["new", "stuck"]


@pytest.mark.parametrize("given", ["--search x", "--sort name", "--limit 30"])
def test_stats_of_a_topic_take_nothing_that_is_about_the_list(
    given: str, vela: Vela, console: FakeConsole
) -> None:
    done = vela(f"stats orders {given}")
    assert (done.exit_code, console.asked) == (2, [])
    assert f"{given.split()[0]} applies to the list of topics" in done.stderr


def test_what_is_in_a_message_cannot_command_the_terminal(vela: Vela, console: FakeConsole) -> None:
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
    import httpx

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
                       {"text": "Fix the consumer.", "act": "", "parameters": {}, "block": "next", "topic": ""}]},
            {"rule": "timers_silent", "severity": "notice", "sentence": "Beat is silent.", "evidence": [], "cures": []},
        ],
    }  # fmt: skip
    console.answers[f"GET {TOPIC}/subscriptions/billing/diagnosis"] = document
    lines = vela("why orders billing").stdout.splitlines()
    assert lines[0] == "slow: The oldest\\x1b[31m one fails."
    assert [line.split()[-1] for line in lines[1:7]] == ["times", "2.5/s", "kB", "min", "–", "–"]
    assert lines[7:10] == [
        "  → Skip it: vela skip orders billing --id 7:11",
        "  → Disconnect a b: vela disconnect orders billing 'a b'",
        "  → Fix the consumer.",
    ]
    assert lines[-1] == "notice: Beat is silent."
    assert json.loads(vela("why orders billing --json").stdout) == document


def a_message(**changes: Any) -> dict[str, Any]:
    return {
        "id": "1:0", "append_ms": 1, "key": "4711", "size_bytes": 3, "preview": "{}", "trouble": "", "state": None,
        **changes,
    }  # fmt: skip


def a_page(*found: dict[str, Any], after: str | None = None, **looked: Any) -> dict[str, Any]:
    return {
        "messages": list(found),
        "looked_at": {
            "entries": 1000, "stored_entries": 9000, "by_key_hash": False, "not_searched": {}, **looked
        },
        "next_after": after,
    }  # fmt: skip


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


def test_a_search_that_finds_nothing_says_how_far_it_looked(vela: Vela, console: FakeConsole) -> None:
    console.answers[f"GET {TOPIC}/messages"] = a_page()
    done = vela("find orders --holes -s billing --json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert console.asked[0].query == {"limit": "50", "start": "holes", "sub": "billing"}
    assert vela("find orders --next").exit_code == 2
    assert vela("find orders --next -s billing --from earliest").exit_code == 2
    vela("find orders --from 2026-11-20T09:00Z --text x")
    assert console.asked[-1].query["at"] == "2026-11-20T09:00:00+00:00"


def test_one_message_by_its_id_says_what_has_become_of_it(vela: Vela, console: FakeConsole) -> None:
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
    lines = vela("examine orders --id 1:0:3").stdout.splitlines()
    assert next(line for line in lines if line.startswith("on a")).split()[2:] == ["unacked;", "a", "hole"]
    assert "in flight at c since" in next(line for line in lines if line.startswith("on b"))
    assert next(line for line in lines if line.startswith("on b")).endswith(", redelivered 2 times")
    assert lines[-1].split() == ["payload", "whole"]
