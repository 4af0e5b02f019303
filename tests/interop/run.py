"""Let clients and tools ask a started Vela the same questions, and write the answers as tables.

`make interop` runs this module. It needs Go, a JDK with Maven, and Node.js with npm. Each client connects with a token,
over TCP and over TLS. The broker is killed with SIGKILL while each client sends.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx

from config.environment import PROJECT_DIR
from tests.interop.page import SIGNS, Answer, page
from tests.interop.tables import TABLES
from tests.support.certificates import Authority
from tests.support.ports import free_ports
from tests.support.tokens import ENVIRONMENT, FOREIGN_SECRET, token
from tests.support.vela import VelaProcess, started_vela

__all__ = ["main"]

PAGE: Final = PROJECT_DIR / "docs" / "reference" / "clients-tried.md"


def _settings(authority: Authority) -> dict[str, str]:
    own = authority.issue("vela", "localhost", "127.0.0.1")
    (port,) = free_ports(1)
    return {
        **ENVIRONMENT,
        "VELA_PULSAR_TLS_PORT": str(port),
        "VELA_TLS_CERTIFICATE_FILE": own.certificate,
        "VELA_TLS_KEY_FILE": own.private_key,
    }


def _prepare(vela: VelaProcess, prefix: str) -> None:
    """Let the role `app` use the namespace, and create the topic with partitions."""
    with httpx.Client(base_url=f"{vela.http_url}/admin/v2", timeout=30) as admin:
        admin.headers["Authorization"] = f"Bearer {token('root')}"
        allowed = admin.post("/namespaces/public/default/permissions/app", json=["produce", "consume"])
        created = admin.put(f"/persistent/public/default/{prefix}-partitioned/partitions", json=3)
    for answer in (allowed, created):
        answer.raise_for_status()


def _environment(vela: VelaProcess, prefix: str, trust: Authority, foreign: Authority) -> dict[str, str]:
    return {
        **os.environ,
        "INTEROP_PREFIX": prefix,
        "INTEROP_URL": vela.pulsar_url,
        "INTEROP_HTTP_URL": vela.http_url,
        "INTEROP_TLS_URL": f"pulsar+ssl://localhost:{vela.environment['VELA_PULSAR_TLS_PORT']}",
        "INTEROP_TOKEN": token("app"),
        "INTEROP_ROOT_TOKEN": token("root"),
        "INTEROP_FOREIGN_TOKEN": token("app", secret=FOREIGN_SECRET),
        "INTEROP_TRUST": trust.file,
        "INTEROP_FOREIGN_TRUST": foreign.file,
    }


def ask(
    vela: VelaProcess, command: Sequence[str], environment: Mapping[str, str], questions: Mapping[str, str]
) -> dict[str, Answer]:
    """Run a program and return its answers, by question. A question without an answer has failed."""
    answers: dict[str, Answer] = {}
    with subprocess.Popen(
        command, cwd=PROJECT_DIR, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in program.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "kill":
                vela.kill("broker")
                program.stdin.write("killed\n")
                program.stdin.flush()
            elif word in SIGNS:
                name, _, reason = rest.partition(": ")
                answers[name] = Answer(result=word, reason=reason)
                print(f"  {line.strip()}", flush=True)
    failed = Answer(result="failed", reason=f"the program ended with {program.returncode}")
    return {name: answers.get(name, failed) for name in questions}


def _ask_all(chosen: Sequence[str]) -> dict[str, dict[str, Answer]]:
    pairs = [(each, table.questions) for table in TABLES for each in table.programs if each.key in chosen]
    answers: dict[str, dict[str, Answer]] = {}
    with tempfile.TemporaryDirectory(prefix="vela-interop-") as name:
        folder = Path(name)
        trust, foreign = Authority(folder), Authority(folder, "Stranger")
        with started_vela(_settings(trust)) as vela:
            for program, questions in pairs:
                print(program.title, flush=True)
                own = folder / program.key
                own.mkdir()
                command = program.build(own)
                prefix = f"interop-{program.key}"
                _prepare(vela, prefix)
                environment = _environment(vela, prefix, trust, foreign)
                answers[program.key] = ask(vela, command, environment, questions)
    return answers


def main(arguments: Sequence[str] | None = None) -> int:
    """Let the chosen programs ask; without a choice, all. Return 1 if a question failed."""
    keys = [program.key for table in TABLES for program in table.programs]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=keys)
    chosen = parser.parse_args(arguments).only
    answers = _ask_all(chosen or keys)
    if not chosen:
        PAGE.write_text(page(answers, datetime.datetime.now(datetime.UTC).date()), encoding="utf-8")
    failed = [answer for each in answers.values() for answer in each.values() if answer.result == "failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
