"""The first query of docs/how-to/spark.md: its commands, as the reader types them into the second terminal."""

from __future__ import annotations

import re
import subprocess

from config.environment import PROJECT_DIR
from tests.support.vela import VelaProcess
from tests.unit.docs.pages import page, section

INSTALL, PUBLISH, ASK = "config/run/bootstrap.py", "vela.cli produce", "first_query.py"


def commands() -> list[str]:
    return re.findall(r"^ {4}(\S.*)$", section(page("how-to/spark.md"), "The first query"), re.MULTILINE)


def test_a_topic_is_published_to_and_then_queried(shared_vela: VelaProcess) -> None:
    (publish,), (ask,) = ([line for line in commands() if name in line] for name in (PUBLISH, ASK))

    typed(shared_vela, publish)
    table = typed(shared_vela, ask.replace(".vela/", f"{shared_vela.data_dir}/"))

    assert re.search(r"^\|tea +\|7 +\|20\d\d-", table, re.MULTILINE), table


def test_there_are_five_commands_and_the_third_installs_a_list_of_packages() -> None:
    assert len(commands()) == 5
    (install,) = (line for line in commands() if INSTALL in line)
    packages = (PROJECT_DIR / "requirements" / f"{install.split()[-1]}.txt").read_text(encoding="utf-8")
    assert {"pyspark", "pyarrow", "psycopg"} <= set(re.findall(r"^([a-z0-9-]+)", packages, re.MULTILINE))


def typed(vela: VelaProcess, line: str) -> str:
    """Run a line in a shell in the checkout, and return what it printed."""
    done = subprocess.run(
        ["bash", "-euc", line],
        cwd=PROJECT_DIR,
        env={**vela.environment, "VELA_URL": vela.pulsar_url},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout
