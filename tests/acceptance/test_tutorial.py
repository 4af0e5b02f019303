"""The tutorial's scripts, run as the reader runs them, in the tutorial's order."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.console import ConsoleSession
from tests.support.vela import VelaProcess
from tests.unit.docs.pages import DOCS_DIR, page

FEW_FILES = "a*.py"
TOPIC = "persistent://public/default/library"
SUBSCRIPTION = "readers"


def run(vela: VelaProcess, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, DOCS_DIR / "tutorial" / script, *arguments],
        env={**vela.environment, "PULSAR_URL": vela.pulsar_url, "WEBSOCKET_URL": vela.websocket_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
    return done.stdout


def test_each_client_receives_its_first_message(shared_vela: VelaProcess) -> None:
    said = run(shared_vela, "hello_pulsar.py")
    assert re.search(r"^stored as \d+:0$", said, re.MULTILINE)
    assert "received: my first message" in said
    assert run(shared_vela, "hello_websocket.py") == "stored: ok\nreceived: my second message\n"
    assert "received: my second message" in run(shared_vela, "hello_pulsar.py")  # from the backlog


def test_the_library_is_published_consumed_and_consumed_again_after_a_rewind(
    shared_vela: VelaProcess,
) -> None:
    sent = re.fullmatch(r"(\d+) lines sent, 0 refused\n", run(shared_vela, "publish_library.py", FEW_FILES))
    assert sent
    count = int(sent[1])
    assert count > 5_000
    received = f"{count} lines received, equal to the files\n"
    assert run(shared_vela, "consume_library.py", FEW_FILES) == received

    console = ConsoleSession.logged_in(shared_vela)
    act = console.plan(TOPIC, SUBSCRIPTION, "rewind", {"back": "15m"})
    assert act.plan["replayed_messages"] == count
    applied = console.post(f"/acts/{act.id}/apply", {"reason": "tutorial", "confirm": SUBSCRIPTION})
    assert applied.status == 200
    assert console.act(act.id).state == "applied"

    assert run(shared_vela, "consume_library.py", FEW_FILES) == received
    undo = console.undo(act)
    assert (undo.plan["replayed_messages"], undo.plan["skipped_messages"]) == (0, 0)


def test_the_tutorial_names_every_script_of_its_folder_and_no_other() -> None:
    text = page("tutorial/first-hour.md")
    scripts = sorted(path.name for path in (DOCS_DIR / "tutorial").glob("*.py"))
    assert sorted(set(re.findall(r"docs/tutorial/(\w+\.py)", text))) == scripts
