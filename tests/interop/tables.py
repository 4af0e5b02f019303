"""Which program asks a Vela which questions: a table has questions, and the programs that ask them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["TABLES", "Program", "Table"]

_PROGRAMS: Final = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that asks through one client: its title in the table, and how to build it in a folder.

    `build` returns the command that runs it.
    """

    key: str
    title: str
    build: Callable[[Path], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Questions by their names, and the programs that ask them. `sentences` go above the table on the page."""

    heading: str
    sentences: str
    questions: Mapping[str, str]
    programs: Sequence[Program]


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


def _python(_folder: Path) -> Sequence[str]:
    return [sys.executable, "-m", "tests.interop.programs.apache_python"]


def _go(package: str) -> Callable[[Path], Sequence[str]]:
    def build(folder: Path) -> Sequence[str]:
        _run(["go", "build", "-o", str(folder / "interop"), package], _PROGRAMS / "go")
        return [str(folder / "interop")]

    return build


def _java_class(source: Path, name: str, folder: Path) -> Sequence[str]:
    libraries = folder / "libraries"
    _run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"], source)
    _run(["javac", "-cp", f"{libraries}/*", "-d", str(folder), f"{name}.java"], source)
    return ["java", "-cp", f"{folder}:{libraries}/*", name]


def _java(folder: Path) -> Sequence[str]:
    return _java_class(_PROGRAMS / "java", "Interop", folder)


def _node(folder: Path) -> Sequence[str]:
    for name in ("package.json", "interop.mjs"):
        (folder / name).write_bytes((_PROGRAMS / "node" / name).read_bytes())
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund"], folder)
    return ["node", str(folder / "interop.mjs")]


def _pulsar_admin(folder: Path) -> Sequence[str]:
    java = _java_class(_PROGRAMS / "pulsar_admin", "PulsarAdmin", folder)
    return [sys.executable, "-m", "tests.interop.programs.pulsar_admin", *java]


_CLIENTS: Final = Table(
    heading="Clients",
    sentences=(
        "“—” means that the client does not have the feature. Apache's Node client is not in the table: its\n"
        "package loads a native library from GitHub, which this run could not reach. PulsarFlex does not repeat a\n"
        "send that was on its way when the broker died: your program must repeat it."
    ),
    questions={
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
    },
    programs=(
        Program(key="python", title="Python, pulsar-client 3.13.0", build=_python),
        Program(key="go", title="Go, pulsar-client-go 0.19.0", build=_go(".")),
        Program(key="java", title="Java, pulsar-client 4.0.5", build=_java),
        Program(key="node", title="Node.js, PulsarFlex 1.1.1", build=_node),
    ),
)
_TOOLS: Final = Table(
    heading="Tools for administrators",
    sentences=(
        "For each line a tool made several calls of the [Admin REST API](admin-rest.md), and the run checked what it\n"
        "printed or returned. “—” means that the tool has no such calls. Go's client cannot remove rates and the\n"
        "compaction threshold of a namespace: it only set and read those."
    ),
    questions={
        "tenants": "create, show, update, list and delete a tenant",
        "namespaces": "create, show, list and delete a namespace; one with topics is not deleted",
        "namespace-policies": (
            "policies of a namespace: retention, backlog quota, TTL, rates, numbers of producers and consumers,"
            " compaction, compatibility and validation of schemas, automatic topics, inactive topics, expiration of"
            " subscriptions"
        ),
        "namespace-policies-more": (
            "more policies of a namespace: deduplication, delayed delivery, unacked messages, number of subscriptions,"
            " automatic subscriptions"
        ),
        "topic-policies": (
            "policies of a topic: those of a namespace, but no validation of schemas, automatic topics or expiration of"
            " subscriptions; and the size of a message"
        ),
        "permissions": "permissions of a namespace, a topic and a subscription",
        "topics": "create, list and delete topics and partitioned topics, add partitions; a second creation is refused",
        "topics-more": "end a partitioned topic, create missed partitions, trim and truncate a topic",
        "statistics": "statistics of a topic, its ledgers and its partitions, with the published counts",
        "subscriptions": (
            "create, list and delete subscriptions; skip, reset by id and time, expire by time, clear the backlog"
        ),
        "subscriptions-more": "properties of a subscription; expire up to a message",
        "messages": "peek, show a message by its id, also in a batch; find an id by time; the last id",
        "messages-more": "examine messages; size and analysis of a backlog",
        "schemas": "upload, show, list and delete schemas; an incompatible one is refused",
        "lifecycle": "compact, unload and terminate a topic, unload a namespace",
        "lookup": "the broker and the bundle of a topic",
        "brokers": "clusters, brokers, the leader, health, namespaces, topics and settings of the broker",
        "version": "the version of the API",
        "refusals": "shows why Vela refuses BookKeeper's quorums, functions, another cluster, subscribe rates",
        "token": "a role without permission is refused, and so is a token signed with another key",
    },
    programs=(
        Program(key="pulsar-admin", title="`pulsar-admin` 4.0.8", build=_pulsar_admin),
        Program(key="go-admin", title="Go, pulsaradmin 0.19.0", build=_go("./admin")),
    ),
)
TABLES: Final = (_CLIENTS, _TOOLS)
