"""Ask clients in four languages the same questions of a started Vela, and write the answers as a table.

`make interop` runs it; it needs Go, a JDK with Maven, and Node.js with npm. Each client connects with a token, over TCP
and over TLS; the broker is killed with SIGKILL while each sends.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from config.environment import PROJECT_DIR
from tests.support.certificates import Authority
from tests.support.ports import free_ports
from tests.support.tokens import ENVIRONMENT, FOREIGN_SECRET, token
from tests.support.vela import VelaProcess, started_vela

__all__ = ["main"]

PROGRAMS: Final = Path(__file__).parent / "programs"
PAGE: Final = PROJECT_DIR / "docs" / "reference" / "clients-tried.md"
QUESTIONS: Final = {
    "produce-and-consume": "100 messages in batches, with keys and properties",
    "exclusive": "a second Exclusive consumer is refused",
    "failover": "the standby takes over where the first consumer left off",
    "shared": "two Shared consumers share the messages, each delivered once",
    "key-shared": "each key goes to one of two Key_Shared consumers",
    "schema": "a JSON schema; a producer with an incompatible one is refused",
    "seek": "seek to the beginning",
    "dead-letters": "a message that a consumer rejects twice becomes a dead letter",
    "reader": "a reader from the beginning",
    "partitions": "a topic with three partitions",
    "pattern": "a subscription to topics by pattern",
    "token": "a token signed with another key is refused",
    "tls": "TLS; a server certificate of another authority is refused",
    "reconnect": "continue after `kill -9` of the broker",
}
SIGNS: Final = {"ok": "yes", "failed": "**no**", "absent": "—"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client: its name in the table, how to build its program in a folder, and the command that runs it."""

    key: str
    title: str
    build: Callable[[Path], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A client's answer to a question. `result` is a key of SIGNS."""

    result: str
    reason: str = ""


def _python(_folder: Path) -> Sequence[str]:
    return [sys.executable, "-m", "tests.interop.programs.apache_python"]


def _go(folder: Path) -> Sequence[str]:
    _run(["go", "build", "-o", str(folder / "interop"), "."], PROGRAMS / "go")
    return [str(folder / "interop")]


def _java(folder: Path) -> Sequence[str]:
    libraries = folder / "libraries"
    source = PROGRAMS / "java"
    _run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"], source)
    _run(["javac", "-cp", f"{libraries}/*", "-d", str(folder), "Interop.java"], source)
    return ["java", "-cp", f"{folder}:{libraries}/*", "Interop"]


def _node(folder: Path) -> Sequence[str]:
    for name in ("package.json", "interop.mjs"):
        (folder / name).write_bytes((PROGRAMS / "node" / name).read_bytes())
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund"], folder)
    return ["node", str(folder / "interop.mjs")]


CLIENTS: Final = (
    Client(key="python", title="Python, pulsar-client 3.13.0", build=_python),
    Client(key="go", title="Go, pulsar-client-go 0.19.0", build=_go),
    Client(key="java", title="Java, pulsar-client 4.0.5", build=_java),
    Client(key="node", title="Node.js, PulsarFlex 1.1.1", build=_node),
)


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


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
        "INTEROP_TLS_URL": f"pulsar+ssl://localhost:{vela.environment['VELA_PULSAR_TLS_PORT']}",
        "INTEROP_TOKEN": token("app"),
        "INTEROP_FOREIGN_TOKEN": token("app", secret=FOREIGN_SECRET),
        "INTEROP_TRUST": trust.file,
        "INTEROP_FOREIGN_TRUST": foreign.file,
    }


def ask(vela: VelaProcess, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Answer]:
    """Run a client's program and return its answers, by question. A question without an answer has failed."""
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
    return {name: answers.get(name, failed) for name in QUESTIONS}


def table(answers: Mapping[str, Mapping[str, Answer]], date: datetime.date) -> str:
    """Return the page with the answers of all clients."""
    clients = [client for client in CLIENTS if client.key in answers]
    lines = [
        "# Clients that were tried",
        "",
        f"`make interop` ran these checks on {date.isoformat()}. Each client came unmodified from its language's",
        "registry and connected with a token. “—” means that the client does not have the feature. Apache's Node",
        "client is not in the table: its package loads a native library from GitHub, which this run could not reach.",
        "PulsarFlex does not repeat a send that was on its way when the broker died: your program must repeat it.",
        "",
        "| | " + " | ".join(client.title for client in clients) + " |",
        "|---|" + "---|" * len(clients),
    ]
    for name, title in QUESTIONS.items():
        signs = (SIGNS[answers[client.key][name].result] for client in clients)
        lines.append(f"| {title} | " + " | ".join(signs) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask all clients. Return 1 if one failed a question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=[client.key for client in CLIENTS])
    chosen = parser.parse_args(arguments).only
    answers: dict[str, dict[str, Answer]] = {}
    with tempfile.TemporaryDirectory(prefix="vela-interop-") as name:
        folder = Path(name)
        trust, foreign = Authority(folder), Authority(folder, "Stranger")
        with started_vela(_settings(trust)) as vela:
            for client in CLIENTS:
                if chosen and client.key not in chosen:
                    continue
                print(client.title, flush=True)
                own = folder / client.key
                own.mkdir()
                command = client.build(own)
                prefix = f"interop-{client.key}"
                _prepare(vela, prefix)
                answers[client.key] = ask(vela, command, _environment(vela, prefix, trust, foreign))
    if not chosen:
        PAGE.write_text(table(answers, datetime.datetime.now(datetime.UTC).date()), encoding="utf-8")
    failed = [answer for each in answers.values() for answer in each.values() if answer.result == "failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
