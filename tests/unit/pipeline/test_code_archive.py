"""The zip file that executors import from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pipeline.code_archive import write_code_archive

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import pipeline.source.batch_reader, pipeline.sink.writers
from pipeline.queries import query
from vela.wire.entry import encode_single
assert query("entries").startswith(b"COPY")
assert all(sys.modules[name].__file__.startswith(sys.argv[1]) for name in ("pipeline", "vela", "vela.aio"))
"""


def test_source_and_sink_can_be_imported_from_the_archive_alone(tmp_path: Path) -> None:
    archive = tmp_path / "code.zip"
    write_code_archive(archive)
    assert archive.stat().st_size < 2 << 20

    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(archive)],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
