"""docs/tutorial/client.md: its blocks, typed in from top to bottom, print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.vela import VelaProcess
from tests.unit.docs.pages import page

TUTORIAL = page("tutorial/client.md")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("scheme", ["ws", "pulsar"])
def test_the_tutorial(shared_vela: VelaProcess, scheme: str) -> None:
    program, standard = "\n".join(blocks("python")), "ws://127.0.0.1:8080"
    assert standard in program
    url = shared_vela.websocket_url if scheme == "ws" else shared_vela.pulsar_url
    # Topics of its own: the page's names are whoever's runs it first.
    program = re.sub(r'"(orders|order-records|numbers)"', rf'"\1-{scheme}"', program.replace(standard, url))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(blocks("text"))
