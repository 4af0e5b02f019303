"""docs/tutorial/client.md: its blocks, pasted into a Python prompt from top to bottom, print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.vela import VelaProcess
from tests.unit.docs.pages import page

TUTORIAL = page("tutorial/client.md")
PROMPT = """
import code, os, sys

class Console(code.InteractiveConsole):
    def write(self, data):
        print(data, file=sys.stderr, flush=True)
        os._exit(1)

console = Console()
for line in sys.stdin.read().splitlines():
    console.push(line)
"""
SHOWN_BY_THE_PROMPT = re.compile(r"^MessageId\(.*\)\n", re.MULTILINE)
"""What `send` returns."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("scheme", ["ws", "pulsar"])
def test_the_tutorial_prints_what_its_page_says(shared_vela: VelaProcess, scheme: str) -> None:
    pasted = "".join(f"{block}\n" for block in blocks("python"))  # each block, and the Enter key
    standard = "ws://127.0.0.1:8080"
    assert standard in pasted
    url = shared_vela.websocket_url if scheme == "ws" else shared_vela.pulsar_url
    # Both runs share one Vela, and the tutorial works only once with the same topics.
    pasted = re.sub(r'"(tutorial-\w+)"', rf'"\1-{scheme}"', pasted.replace(standard, url))
    done = subprocess.run(
        [sys.executable, "-c", PROMPT],
        input=pasted,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed, shown = SHOWN_BY_THE_PROMPT.subn("", done.stdout)
    assert printed == "".join(blocks("text"))
    assert shown == 3
