"""What the shell completes: commands, topics, subscriptions; nothing when the console is unavailable."""

from __future__ import annotations

import httpx
from click.shell_completion import ShellComplete

from tests.unit.client.cli.fake_console import FakeConsole
from vela.cli.root import cli


def completed(line: str, incomplete: str) -> list[str]:
    found = ShellComplete(cli, {}, "vela", "_VELA_COMPLETE").get_completions(line.split(), incomplete)
    return [item.value for item in found]


def test_commands_and_options_are_completed() -> None:
    assert completed("", "re") == ["read", "reset", "resume", "redeliver", "redrive"]
    assert completed("topics", "t") == ["terminate", "truncate"]
    assert completed("reset orders billing", "--ea") == ["--earliest"]


def test_topics_are_completed_from_the_console(console: FakeConsole) -> None:
    names = [
        "persistent://public/default/orders",
        "persistent://public/default/more-orders",
        "persistent://shop/eu/or",
    ]
    console.answers["GET topics"] = {"topics": [{"name": name} for name in names], "next_after": None}
    assert completed("--console-url http://127.0.0.1:7777 reset", "or") == ["orders"]
    (asked,) = console.asked
    assert (asked.query["q"], asked.query["namespace"]) == ("or", "public/default")
    assert asked.headers["host"] == "127.0.0.1:7777"
    assert asked.headers["authorization"].startswith("Basic ")
    assert completed("topics show", "shop/eu/") == ["shop/eu/or"]


def test_subscriptions_are_completed_for_the_topic_on_the_line(console: FakeConsole) -> None:
    console.answers["GET topics/persistent/public/default/orders/stats"] = {
        "subscriptions": [{"name": "billing"}, {"name": "mail"}], "next_after": None,
    }  # fmt: skip
    assert completed("reset orders", "") == ["billing", "mail"]
    assert completed("reset orders", "m") == ["mail"]
    assert completed("reset a/b", "m") == []


def test_a_console_that_is_away_completes_nothing(console: FakeConsole) -> None:
    def fails(request: httpx.Request) -> None:
        assert request.extensions["timeout"]["read"] == 1.0
        raise httpx.ConnectError("refused", request=request)

    console.fails = fails
    assert completed("reset", "or") == []
