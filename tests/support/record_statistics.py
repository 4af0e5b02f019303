"""Record the statistics of a started Apache Pulsar: `python -m tests.support.record_statistics`.

It writes tests/data/apache/statistics.ndjson, which tests/acceptance/test_admin_statistics.py compares with Vela's
statistics. It needs Java and Maven.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from bench.peers.servers import pulsar
from tests.support.record_apache import DATA
from tests.support.statistics import RECORDED, documents_of, shape_of


def main() -> None:
    """Start Pulsar, ask it, and write the shapes of its answers."""
    with tempfile.TemporaryDirectory() as folder, pulsar.started(Path(folder)) as server:
        documents = documents_of(server.url, f"http://127.0.0.1:{server.websocket_port}")
        version = server.facts["pulsar"]
    lines = [json.dumps({"pulsar": version})]
    lines += [json.dumps({"path": path, "shape": shape_of(each)}) for path, each in documents.items()]
    (DATA / RECORDED).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
