"""Commands that act: they plan, show the plan, ask, apply and show the receipt. Nothing is applied without a yes."""

from __future__ import annotations

import io
import json
import re

import httpx
import pytest

from tests.support.plans import a_plan
from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, a_result, an_act, problem
from vela.cli.console import Answer, ConsoleApi
from vela.cli.settings import Settings

RESET = "reset orders billing --earliest"
PLANNED = ["acts"]
APPLIED = ["acts", "acts/7/apply"]


def test_the_plan_is_shown_in_words_and_as_a_table_before_the_question(
    vela: Vela, console: FakeConsole
) -> None:
    done = vela(RESET, typed="y\n")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:6] == [
        "plan of act 7: reset to the beginning, billing on orders",
        "  4 messages are delivered again, 0 are skipped and never delivered",
        "  1 consumer is closed and reconnects by itself",
        "  2 messages a second are being acked",
        "  note: the oldest message kept is 3 s younger than the requested time",
        "              now                        after it",
    ]
    table = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()[6:11]]
    assert table == [
        ["mark-delete", "1:4", "1:0"],
        ["backlog", "12 messages", "16 messages"],
        ["in flight", "1 message"],
        ["next message", "1:5", "1:1"],
        ["stored at", "1970-01-01 00:00:02+00:00", "1970-01-01 00:00:01+00:00"],
    ]
    assert done.stdout.splitlines()[-6:-1] == [
        "applied act 7: reset to the beginning, billing on orders",
        "  4 messages are delivered again, 0 were skipped",
        "  1 consumer was closed and reconnects by itself",
        "  mark-delete moved from 1:4 to 1:0",
        "  16 messages wait now",
    ]
    assert "apply it? [y/N]" in done.stderr
    assert console.paths("POST") == APPLIED


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("kind", ["reset", "undo"])
def test_an_undo_also_says_how_to_undo_it(kind: str, vela: Vela, console: FakeConsole) -> None:
    console.answers["POST acts/7/apply"] = an_act(kind=kind, undo_of=5, state="applied", result=a_result())
    says = "to undo it, run `vela acts undo 7` before 2026-01-01 04:30:00+03:30"
    assert says in vela(f"{RESET} --yes").stdout


@pytest.mark.parametrize(
    ("topic", "left", "first"),
    [("orders", "38", "1:0:-1:3"), ("orders-partition-2", "1", "1:0:2:0"), ("orders", "0", "")],
)
def test_a_position_inside_a_batch_is_shown_before_and_after(
    topic: str, left: str, first: str, vela: Vela, console: FakeConsole
) -> None:
    inside = {"position": "1:0", "remaining": left}
    target = {
        "mark_delete": "1:-1",
        "next": "1:0",
        "next_append_ms": 1,
        "backlog_messages": 1,
        "inside": inside,
    }
    console.plan = a_plan(target=target)
    console.answers["POST acts/7/apply"] = an_act(
        topic=f"persistent://public/default/{topic}", state="applied", result=a_result(inside=inside)
    )
    shown = vela(f"shift {topic} billing --forward 3 --yes").stdout
    assert re.search(rf"next message  1:5 +{first or '1:0'}\n", shown)
    assert ("inside a batch; its next" in shown, f"its next message is {first}" in shown) == (
        bool(first),
        bool(first),
    )


@pytest.mark.parametrize(
    ("current", "shown"),
    [({"next": None}, "none is stored"), ({}, "")],  # plans of earlier releases lack `next`
)
def test_a_plan_says_so_if_no_message_is_next_now(
    current: dict[str, None], shown: str, vela: Vela, console: FakeConsole
) -> None:
    console.plan = a_plan(current={"mark_delete": "1:4", "backlog_messages": 0, **current})
    assert re.search(rf"next message  {shown} *1:1\nstored at +1970", vela(f"{RESET} --plan-only").stdout)


def test_skipping_one_message_of_a_batch_shows_no_next_message(vela: Vela, console: FakeConsole) -> None:
    done = an_act(
        kind="skip_one", parameters={"id": "1:0:-1:5"}, state="applied",
        result=a_result(inside={"position": "1:0", "remaining": "3"}),
    )  # fmt: skip
    console.answers["POST acts/7/apply"] = done
    assert "inside a batch" not in vela("skip orders billing --id 1:0:5 --yes").stdout


def test_a_count_of_one_is_in_the_singular(vela: Vela, console: FakeConsole) -> None:
    result = a_result(backlog_messages=1, acked_meanwhile_messages=1)
    console.answers["POST acts/7/apply"] = an_act(state="applied", result=result)
    shown = vela(f"{RESET} --yes").stdout
    assert "1 message waits now" in shown
    assert "1 message was acknowledged between plan and act" in shown


def test_a_receipt_reports_messages_acknowledged_since_the_plan(vela: Vela, console: FakeConsole) -> None:
    plan = a_plan(replayed_messages=4, skipped_messages=6)
    result = a_result(
        replayed_messages=5, skipped_messages=4, acked_meanwhile_messages=4, published_meanwhile_messages=2
    )
    console.answers["POST acts/7/apply"] = an_act(state="applied", plan=plan, result=result)
    shown = vela(f"{RESET} --yes").stdout
    assert (
        "4 messages were acknowledged between plan and act; 1 of them is delivered again too;"
        " 2 of them were not skipped"
    ) in shown
    assert "2 messages were published between plan and act" in shown


def test_how_far_a_plan_may_have_drifted_is_sent_with_the_apply(vela: Vela, console: FakeConsole) -> None:
    for option, sent in (("", None), (" --allow-drift 0", 0), (" --allow-drift 12", 12)):
        console.asked.clear()
        assert vela(f"{RESET} --yes{option}").exit_code == 0
        assert console.asked[-1].body.get("allowed_drift_messages") == sent
    for wrong in ("--yes --allow-drift -1", "--yes --allow-drift x", "--plan-only --allow-drift 1"):
        assert vela(f"{RESET} {wrong}").exit_code == 2


@pytest.mark.parametrize(
    ("allowed", "option", "exit_code"),
    [(60, "", 4), (40, "", 0), (60, "--allow-drift 40", 0), (40, "--allow-drift 60", 4)],
)
def test_messages_allowed_beyond_the_plan_count_for_the_typed_name(
    allowed: int, option: str, exit_code: int, vela: Vela, console: FakeConsole
) -> None:
    console.plan = a_plan(replayed_messages=9950, allowed_drift_messages=allowed)
    assert vela(f"{RESET} {option}", typed="y\n").exit_code == exit_code


@pytest.mark.parametrize("is_late", [False, True])
def test_an_apply_that_would_do_more_than_planned_names_the_new_plan(
    is_late: bool, vela: Vela, console: FakeConsole
) -> None:
    grown = "889 messages would be delivered again, the plan showed 5; look at the new preview"
    if is_late:
        console.answers["POST acts/7/apply"] = httpx.Response(
            202, json=an_act(state="apply_requested", is_waiting=True)
        )
        console.answers["GET acts/7"] = an_act(
            state="refused", error=grown, error_code="ActConflict", new_plan=8
        )
    else:
        console.answers["POST acts/7/apply"] = problem(
            409, "ActConflict", grown, retriable=True, act=7, new_plan=8
        )
    done = vela(f"{RESET} --yes")
    assert done.exit_code == 4
    assert f"{grown}: `vela acts apply 8` shows it and applies it" in done.stderr
    assert json.loads(vela(f"{RESET} --yes --json").stderr)["new_plan"] == 8


def test_an_act_that_was_undone_names_the_act_that_undid_it(vela: Vela, console: FakeConsole) -> None:
    undone = an_act(state="applied", result=a_result(), undone_by=9, undoable=False)
    console.answers["GET acts/7"] = [undone]
    shown = vela("acts show 7").stdout
    assert "act 9 undid it: `vela acts show 9`" in shown
    assert "vela acts undo" not in shown


@pytest.mark.parametrize(
    ("state", "label"),
    [("refused", "refused because"), ("failed", "error"), ("expired", "error"), ("applied", "error")],
)
def test_only_the_error_of_a_refused_act_is_called_a_refusal(
    state: str, label: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers["GET acts/7"] = an_act(state=state, error="the disk is full", result=a_result())
    lines = vela("acts show 7").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines if "the disk is full" in line] == [label]


@pytest.mark.parametrize(
    ("state", "code", "exit_code"),
    [("refused", "NothingToActOn", 3), ("refused", "MetadataError", 4), ("expired", "ActExpired", 1)],
)
def test_a_late_error_has_the_exit_code_of_an_immediate_one(
    state: str, code: str, exit_code: int, vela: Vela, console: FakeConsole
) -> None:
    console.answers["POST acts"] = httpx.Response(202, json=an_act(state="plan_requested", is_waiting=True))
    console.answers["GET acts/7"] = an_act(state=state, error="no", error_code=code)
    assert vela(f"{RESET} --yes").exit_code == exit_code


@pytest.mark.parametrize("typed", ["n\n", "\n", "yeah\n", "billing\n"])
def test_anything_but_yes_changes_nothing(typed: str, vela: Vela, console: FakeConsole) -> None:
    done = vela(RESET, typed=typed)
    assert (done.exit_code, "nothing was changed" in done.stderr) == (4, True)
    assert console.paths("POST") == PLANNED


def test_without_a_terminal_to_ask_nothing_is_changed(vela: Vela, console: FakeConsole) -> None:
    done = vela(RESET)
    assert (done.exit_code, "add --yes" in done.stderr) == (2, True)
    assert console.paths("POST") == PLANNED


@pytest.mark.parametrize("plan", [a_plan(skipped_messages=1), a_plan(replayed_messages=10_001)])
@pytest.mark.parametrize(("typed", "exit_code"), [("y\n", 4), ("orders\n", 4), ("billing\n", 0)])
def test_acts_that_lose_messages_or_repeat_many_require_the_typed_name(
    plan: dict[str, object], typed: str, exit_code: int, vela: Vela, console: FakeConsole
) -> None:
    console.plan = plan
    done = vela(RESET, typed=typed)
    assert (done.exit_code, "type billing to apply it" in done.stderr) == (exit_code, True)


def test_the_name_of_a_topic_is_typed_where_there_is_no_subscription(
    vela: Vela, console: FakeConsole
) -> None:
    console.plan = {
        "words": ["orders is deleted"],
        "skipped_messages": 5,
        "notes": [],
        "replayed_messages": 0,
    }
    done = vela("topics delete orders", typed="orders\n")
    assert (done.exit_code, "  orders is deleted" in done.stdout.splitlines()) == (0, True)


def test_the_option_plan_only_stops_after_the_plan(vela: Vela, console: FakeConsole) -> None:
    done = vela(f"{RESET} --plan-only")
    assert (done.exit_code, console.paths("POST")) == (0, PLANNED)
    assert "`vela acts apply 7` applies it" in done.stderr
    assert json.loads(vela(f"{RESET} --plan-only --json").stdout)["plan"]["replayed_messages"] == 4


def test_the_json_output_is_the_act_and_nothing_else(vela: Vela, console: FakeConsole) -> None:
    done = vela(f"{RESET} --yes --json")
    assert json.loads(done.stdout)["result"] == a_result()
    assert done.stderr == ""


def test_a_reason_is_sent_with_plan_and_apply(vela: Vela, console: FakeConsole) -> None:
    done = vela(f"{RESET} --yes --reason outage")
    assert (done.exit_code, [each.body.get("reason") for each in console.asked]) == (0, ["outage", "outage"])


def test_an_act_that_waits_is_followed_to_its_end(vela: Vela, console: FakeConsole) -> None:
    console.answers["POST acts"] = httpx.Response(202, json=an_act(state="plan_requested", is_waiting=True))
    console.answers["POST acts/7/apply"] = httpx.Response(
        202, json=an_act(state="applying", progress={"n": 1})
    )
    console.answers["GET acts/7"] = [
        an_act(state="plan_requested", is_waiting=True),
        an_act(plan=a_plan()),
        an_act(state="applying", progress={"redriven_messages": 100}),
        an_act(state="applied", result=a_result()),
    ]
    done = vela(f"{RESET} --yes")
    assert (done.exit_code, len(console.paths())) == (0, 4)
    assert "applied act 7" in done.stdout


def test_progress_is_shown_on_one_line_and_erased(
    console: FakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    console.answers["GET acts/7"] = [
        an_act(state="applying", progress={"redriven_messages": 5}),
        an_act(state="applied", result=a_result()),
    ]
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    asked = Settings(url="", console_url="http://vela.test", user="ada", password="secret-7")
    begun = an_act(state="applying", progress={"redriven_messages": 100})
    with ConsoleApi(asked) as api:
        api.settled(Answer(202, begun, ""), wait_s=1)
    words = "act 7: redriven messages"
    assert terminal.getvalue() == f"\r\x1b[K{words} 100\r\x1b[K{words} 5\r\x1b[K"


@pytest.mark.parametrize(
    ("asked", "state", "then"),
    [("acts", "plan_requested", "still plans it"), ("acts/7/apply", "apply_requested", "still applies it")],
)
def test_an_act_without_an_answer_is_left_and_its_number_named(
    asked: str, state: str, then: str, vela: Vela, console: FakeConsole
) -> None:
    waiting = an_act(state=state, is_waiting=True)
    console.answers[f"POST {asked}"] = httpx.Response(202, json=waiting)
    console.answers["GET acts/7"] = waiting
    done = vela(f"{RESET} --yes --wait 0")
    assert done.exit_code == 3
    assert "act 7 waits: no broker answered within 0 s. A broker that starts in time" in done.stderr
    assert then in done.stderr


def test_ctrl_c_while_an_act_is_applied_says_that_it_may_still_be_applied(
    vela: Vela, console: FakeConsole
) -> None:
    def interrupted(request: httpx.Request) -> None:
        if request.url.path.endswith("/apply"):
            raise KeyboardInterrupt

    console.fails = interrupted
    done = vela(f"{RESET} --yes")
    assert done.exit_code == 130
    assert "act 7 was requested and may still be applied; look with `vela acts show 7`" in done.stderr


@pytest.mark.parametrize(
    ("lost", "error", "exit_code"),
    [
        ("/acts/7/apply", httpx.ReadTimeout("slow"), 3),
        ("/acts/7", httpx.ReadTimeout("slow"), 3),
        ("/acts/7", httpx.ConnectError("refused"), 1),
    ],
)
def test_a_lost_answer_to_an_apply_says_that_the_act_may_still_be_applied(
    lost: str, error: httpx.TransportError, exit_code: int, vela: Vela, console: FakeConsole
) -> None:
    def lose(request: httpx.Request) -> None:
        if request.url.path.endswith(lost):
            raise error

    console.answers["POST acts/7/apply"] = an_act(state="applying", progress={})
    console.fails = lose
    done = vela(f"{RESET} --yes")
    assert done.exit_code == exit_code
    assert "act 7 may still be applied: look with `vela acts show 7` first" in done.stderr
    assert json.loads(vela(f"{RESET} --yes --json").stderr)["act"] == 7


@pytest.mark.parametrize(
    ("answer", "exit_code", "says"),
    [
        (
            problem(409, "ActConflict", "the cursor moved; plan again", retriable=True),
            4,
            "refused: the cursor moved",
        ),
        (problem(422, "MetadataError", "no bookmark x"), 4, "no bookmark x"),
        (problem(503, "ActExpired", "no broker came", retriable=True), 1, "no broker came"),
        (httpx.Response(202, json=an_act(state="applying", progress={})), 4, "act 7 refused: moved"),
    ],
)
def test_a_refused_apply_says_why(
    answer: httpx.Response, exit_code: int, says: str, vela: Vela, console: FakeConsole
) -> None:
    console.answers["POST acts/7/apply"] = answer
    console.answers["GET acts/7"] = an_act(state="refused", error="moved", error_code="ActConflict")
    done = vela(f"{RESET} --yes")
    assert (done.exit_code, says in done.stderr) == (exit_code, True), done.stderr


def test_undo_plans_a_separate_act(vela: Vela, console: FakeConsole) -> None:
    done = vela("acts undo 5", typed="y\n")
    assert (done.exit_code, console.paths("POST")) == (0, ["acts/5/undo", "acts/7/apply"])
    assert "plan of act 7: undo act 5, billing on orders" in done.stdout


def test_the_plan_of_an_undo_has_the_reason(vela: Vela, console: FakeConsole) -> None:
    done = vela("acts undo 5 --plan-only --reason early")
    assert (done.exit_code, [each.body for each in console.asked]) == (0, [{"reason": "early"}])


def test_an_earlier_plan_is_applied_by_its_number(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET acts/7"] = [an_act(plan=a_plan()), an_act(state="applied", result=a_result())]
    assert (vela("acts apply 7 --yes").exit_code, console.paths("POST")) == (0, ["acts/7/apply"])
    again = vela("acts apply 7 --yes")
    assert (again.exit_code, "act 7 is applied: only a planned act" in again.stderr) == (4, True)


def test_text_from_the_server_cannot_control_the_terminal(vela: Vela, console: FakeConsole) -> None:
    console.plan = a_plan(notes=["beware \x1b[2J\x07"])
    shown = vela(f"{RESET} --plan-only").stdout
    assert "beware \\x1b[2J\\x07" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topics delete orders", "remove them, or add --subscriptions"),
        ("acts plan delete_topic orders", "remove them, or set subscriptions to true"),
    ],
)
def test_a_refusal_names_the_option_of_the_command(
    line: str, said: str, vela: Vela, console: FakeConsole
) -> None:
    error = "orders has 1 subscription: remove them, or set subscriptions to true"
    refused = an_act(state="refused", error=error, error_code="NotAllowedError")
    console.answers["POST acts"] = httpx.Response(201, json=refused)
    done = vela(f"{line} --yes")
    assert (done.exit_code, done.stderr) == (4, f"vela: act 7 refused: orders has 1 subscription: {said}\n")
    as_json = json.loads(vela(f"{line} --yes --json").stderr)
    assert (as_json["act"], as_json["code"]) == (7, "NotAllowedError")
    assert as_json["error"].endswith(said)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("skip orders billing --id 1:0:5", "1:0:5"),
        ("acts plan skip_one orders id=1:0:-1:5 --subscription billing", "1:0:-1:5"),
    ],
)
def test_a_refusal_names_the_message_as_it_was_typed(
    line: str, named: str, vela: Vela, console: FakeConsole
) -> None:
    refused = an_act(state="refused", error="1:0:-1:5 is already acknowledged", error_code="MetadataError")
    console.answers["POST acts"] = httpx.Response(201, json=refused)
    assert vela(f"{line} --yes").stderr == f"vela: act 7 refused: {named} is already acknowledged\n"


@pytest.mark.parametrize("command", [f"{RESET} --yes", RESET, "acts undo 5"])
def test_a_plan_that_needs_a_second_person_is_shown_and_not_applied(
    command: str, vela: Vela, console: FakeConsole
) -> None:
    waits = an_act(plan=a_plan(), needs_second_person=True)
    console.answers |= {"POST acts": waits, "POST acts/5/undo": waits}
    done = vela(command)
    assert done.exit_code == 4
    assert "4 messages are delivered again" in done.stdout
    assert "act 7 waits for a second person (policy second_person)" in done.stderr
    assert "`vela acts apply 7`" in done.stderr
    assert "acts/7/apply" not in console.paths("POST")


def test_the_second_person_applies_or_refuses_it(vela: Vela, console: FakeConsole) -> None:
    console.answers["GET acts/7"] = an_act(plan=a_plan(), needs_second_person=True)
    assert vela("acts apply 7 --yes").exit_code == 0
    assert console.paths("POST") == ["acts/7/apply"]
    refused = {"state": "refused", "error": "user ben refused the plan: no", "who": "ben"}
    console.answers["POST acts/7/refuse"] = an_act(**refused)
    done = vela("acts refuse 7 --reason no")
    assert (done.exit_code, done.stdout) == (0, "act 7: user ben refused the plan: no\n")
    assert console.asked[-1].body == {"reason": "no"}
    console.answers["GET acts/7"] = an_act(**refused)
    assert "planned by" in vela("acts show 7").stdout
