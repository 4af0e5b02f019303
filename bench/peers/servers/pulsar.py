"""Apache Pulsar standalone: broker and bookie in one Java process, from the jars of Maven Central."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from bench.peers.programs import ProgramFailed, output_of, serving
from bench.peers.server import Server
from tests.support.ports import free_ports

__all__ = ["started"]

_PROJECT: Final = Path(__file__).with_name("pulsar.xml")
_MEMORY: Final = ("-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=4g")  # the defaults of bin/pulsar
_OPENED: Final = (  # packages that Netty and BookKeeper reach into
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/sun.net",
)
# From conf/standalone.conf. That file leaves the journal unsynced; here it is synced, because Vela syncs too.
_SETTINGS: Final = """\
clusterName=standalone
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
brokerServicePort={binary}
webServicePort={http}
webSocketServiceEnabled=true
loadBalancerEnabled=false
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
journalMaxGroupWaitMSec=1
journalSyncData=true
flushInterval=60000
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.99
allowLoopback=true
"""


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start Pulsar, which syncs its journal. Raises ProgramFailed if Java, Maven or a jar is missing."""
    binary, http, bookie = free_ports(3)
    (folder / "standalone.conf").write_text(_SETTINGS.format(binary=binary, http=http), encoding="ascii")
    jars = _class_path(folder)
    command = [
        "java",
        *_MEMORY,
        *(option for package in _OPENED for option in ("--add-opens", f"{package}=ALL-UNNAMED")),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-cp",
        jars,
        "org.apache.pulsar.PulsarStandaloneStarter",
        *("--config", "standalone.conf", "--bookkeeper-port", str(bookie)),
        *("--metadata-dir", "metadata", "--bookkeeper-dir", "bookkeeper"),
        *("--no-functions-worker", "--no-stream-storage"),
    ]

    def is_ready() -> bool:
        try:
            answer = httpx.get(f"http://127.0.0.1:{http}/admin/v2/namespaces/public")
        except httpx.TransportError:
            return False
        return answer.is_success and "public/default" in answer.text

    with serving(command, folder, is_ready) as cpu_s:
        yield Server(
            url=f"pulsar://127.0.0.1:{binary}",
            protocol="pulsar",
            facts={
                "pulsar": _version(jars),
                "java": output_of(["java", "--version"], folder).splitlines()[0],
                "durability": "journalSyncData on",
            },
            cpu_s=cpu_s,
            pulsar_port=binary,
            websocket_port=http,
        )


def _class_path(folder: Path) -> str:
    file = folder / "class-path"
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={file}", "-Dmdep.includeScope=runtime"]
    output_of(["mvn", "-q", "-B", "-f", str(_PROJECT), *goal], folder)
    return file.read_text(encoding="utf-8").strip()


def _version(jars: str) -> str:
    found = re.search(r"pulsar-broker-([^:/]+)\.jar", jars)
    if found is None:
        raise ProgramFailed("Maven gave no pulsar-broker.jar")
    return found[1]
