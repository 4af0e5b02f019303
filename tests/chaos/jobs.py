"""Kill jobs at random moments, do them again, then prove that nothing is half done and every message is stored once.

`make pipeline-soak` runs it: `python -m tests.chaos.jobs [JOB …] --messages 20000 --kills 20 [--seed N]`. Without a
JOB it runs all of them. Some kills hit runs of Vela's worker, with Spark on this machine; the others hit jobs on a
cluster.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

import vela as client_of_vela
from tests.chaos.job_runs import in_the_worker
from tests.chaos.job_soak import Hit, JobSoak
from tests.chaos.job_works import FORMATS, LEDGER_ENTRIES, WORKS, Job, Situation
from tests.chaos.messages import checksum_of, publish, stored
from tests.chaos.stopping import end_on_sigterm
from tests.support.spark_cluster import started_cluster
from tests.support.vela import VelaProcess, prepared_vela

__all__ = ["table_of"]

SOURCE = "persistent://public/soak/from"
EXPORTED = "exported"
START_S = 600.0  # long, because other work may run on the machine
# Most jobs last a few seconds. With its default options, Java would spend much of that time compiling.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def _situation(vela: VelaProcess, messages: int, rng: random.Random) -> Iterator[Situation]:
    """Start Vela, publish messages to a topic, and export the topic."""
    vela.start(START_S)
    with (
        client_of_vela.Client(vela.pulsar_url) as client,
        psycopg.connect(vela.database_url, autocommit=True) as database,
    ):
        client.create_producer("persistent://public/soak/first").close()
        vela.manage("setpolicy", "public/soak", "deduplication=true", "--yes")
        publish(client, SOURCE, range(messages))
        situation = Situation(
            vela=vela,
            client=client,
            database=database,
            source=SOURCE,
            published=checksum_of(client, SOURCE),
            size_bytes=sum(len(each.data()) for each in stored(client, SOURCE)),
            folder=vela.data_dir / "pipeline" / "public" / "soak",
            format=rng.choice(FORMATS),
            exported=EXPORTED,
        )
        assert situation.published.messages == messages
        options = {"to": EXPORTED, "format": situation.format}
        with in_the_worker(situation, Job(name="export", topic=SOURCE, options=options)) as run:
            assert run.end(None) == ""
        yield situation


def table_of(hits: Sequence[Hit]) -> str:
    """Return the summary: a line for each job and kind of process that was killed."""
    lines: list[tuple[str, ...]] = [("job", "killed", "kills", "ended well", "done again", "in the stages")]
    for job, target in dict.fromkeys((hit.job, hit.target) for hit in hits):
        found = [hit for hit in hits if (hit.job, hit.target) == (job, target)]
        stages = Counter(hit.stage or "before the first" for hit in found)
        well = sum(not hit.error for hit in found)
        counts = (len(found), well, len(found) - well)
        of_stages = ", ".join(f"{name} {count}" for name, count in stages.items())
        lines.append((job, str(target), *map(str, counts), of_stages))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


def main() -> int:
    """Run the command line. Return 0 if every message is stored once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "job", nargs="*", help=f"one or more of {', '.join(WORKS)}; all of them if none is named"
    )
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    given = parser.parse_args()
    names = given.job or list(WORKS)
    if unknown := set(names) - set(WORKS):
        parser.error(f"there is no job {', '.join(sorted(unknown))}")
    end_on_sigterm()
    sys.stderr.write(
        f"{', '.join(names)}: {given.messages:,} messages, {given.kills} kills of each, seed {given.seed}\n"
    )
    rng = random.Random(given.seed)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vela-soak-", ignore_cleanup_errors=True) as scratch:
        settings = {
            "VELA_LEDGER_MAX_ENTRIES": str(LEDGER_ENTRIES),
            "VELA_LEDGER_MIN_AGE_S": "0",
            "VELA_PIPELINE_MEMORY_MB": "512",
            "VELA_PIPELINE_NICE": "0",  # at low priority, jobs on a busy machine would not end in time
            "TMPDIR": scratch,
        }
        os.environ["JAVA_TOOL_OPTIONS"] = JAVA
        with (
            prepared_vela(settings) as vela,
            started_cluster() as cluster,
            _situation(vela, given.messages, rng) as situation,
        ):
            soak = JobSoak(situation, cluster, Path(scratch), rng)
            try:
                for name in names:
                    soak.kill_each(name, given.kills)
            finally:
                sys.stdout.write(table_of(soak.hits))
    sys.stdout.write(
        f"every message is stored once, {time.monotonic() - began_s:,.0f} s, seed {given.seed}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
