"""Kill the run of an offload, and the broker beside it, at random moments; then read everything back."""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg

import vela as client_of_vela
from tests.support.api import act
from tests.support.vela import VelaProcess, processes_about
from tests.support.waiting import wait_until

__all__ = ["LEDGER_ENTRIES", "run_offload_soak"]

TOPIC = "persistent://public/default/cold"
LEDGER_ENTRIES = 500
LEDGERS = 12  # published for each kill
VALUE_BYTES = 2_000
BROKER_SHARE = 0.3  # of the kills; the others end the job's process
RUN_S = 120.0
_RUN = "SELECT state FROM vela_pipeline_run ORDER BY id DESC LIMIT 1"
_FILES = "SELECT name, state FROM vela_ledger_file"
_LEDGERS = "SELECT l.file_name FROM vela_ledger l WHERE l.file_name IS NOT NULL"


def run_offload_soak(vela: VelaProcess, *, kills: int, seed: int) -> dict[str, int]:
    """Publish and offload, with this many kills. Return the kills that hit a run, by target, and the files at the end.

    Fails if a message is missing, comes twice or has another value, or if a file stays that no ledger names.
    """
    rng = random.Random(seed)
    hit = {"job": 0, "broker": 0}
    sent = _published(vela, rng)
    works_s = _run(vela)
    for _ in range(kills):
        sent += _published(vela, rng)
        target = "broker" if rng.random() < BROKER_SHARE else "job"
        _request(vela)
        wait_until(lambda: _jobs(vela), "the job's process", timeout_s=RUN_S)
        moment_s = time.monotonic() + rng.uniform(0, works_s)
        wait_until(lambda moment_s=moment_s: time.monotonic() >= moment_s, "a random moment", timeout_s=RUN_S)  # type: ignore[misc]
        if jobs := _jobs(vela):
            hit[target] += 1
            _kill(vela, target, jobs)
        _wait_for_end(vela)
    _run(vela)
    _run(vela)  # has nothing to move, and gives up what killed runs left
    return {**hit, "files": _only_known_files(vela), "messages": _compare(vela, sent)}


def _published(vela: VelaProcess, rng: random.Random) -> list[bytes]:
    with client_of_vela.Client(vela.pulsar_url) as client:
        producer = client.create_producer(TOPIC, block_if_queue_full=True)
        values = [
            rng.randbytes(rng.randrange(VALUE_BYTES)) + secrets.token_bytes(8)
            for _ in range(LEDGERS * LEDGER_ENTRIES)
        ]
        for value in values:
            producer.send_async(value, None)
        producer.flush()
    return values


def _request(vela: VelaProcess) -> None:
    act(vela, "run_job", TOPIC, job="offload", options={"keep_bytes": "0"})


def _run(vela: VelaProcess) -> float:
    """Run the job to its end; how long its process lived."""
    _request(vela)
    wait_until(lambda: _jobs(vela), "the job's process", timeout_s=RUN_S)
    began_s = time.monotonic()
    wait_until(lambda: not _jobs(vela), "the end of the job's process", timeout_s=RUN_S)
    works_s = time.monotonic() - began_s
    assert _wait_for_end(vela) == "done"
    return works_s


def _state(vela: VelaProcess) -> str:
    with psycopg.connect(vela.database_url) as connection:
        row = connection.execute(_RUN).fetchone()
    return "" if row is None else str(row[0])


def _wait_for_end(vela: VelaProcess) -> str:
    wait_until(
        lambda: _state(vela) not in ("waiting", "running"), "the run's end", timeout_s=RUN_S, every_s=0.1
    )
    return _state(vela)


def _jobs(vela: VelaProcess) -> list[int]:
    """The processes of jobs; each leads a group."""
    return [
        int(line.split()[0]) for line in processes_about(vela.data_dir) if "pipeline --supervised" in line
    ]


def _kill(vela: VelaProcess, target: str, jobs: list[int]) -> None:
    if target == "broker":
        vela.kill("broker")
        return
    for pid in jobs:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _only_known_files(vela: VelaProcess) -> int:
    """Wait until each file is one that a ledger names; how many there are."""
    folder = Path(vela.data_dir) / "offload"

    def known() -> list[str]:
        with psycopg.connect(vela.database_url, autocommit=True) as connection:
            connection.execute("SELECT pg_notify('vela_lifetime', '')")
            rows = connection.execute(_FILES).fetchall()
            named = sorted(row[0] for row in connection.execute(_LEDGERS))
        found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        is_clean = found == named == sorted(row[0] for row in rows) and {row[1] for row in rows} == {
            "attached"
        }
        return named if is_clean else []

    return len(wait_until(known, "every file to be named by a ledger", timeout_s=60.0, every_s=0.5))


def _compare(vela: VelaProcess, sent: list[bytes]) -> int:
    with client_of_vela.Client(vela.pulsar_url) as client:
        reader = client.create_reader(TOPIC, client_of_vela.MessageId.earliest)
        for number, value in enumerate(sent):
            message = reader.read_next(60_000)
            assert message.data() == value, f"message {number} of {len(sent)} is another one"
        assert not reader.has_message_available(), "there are more messages than were published"
    sys.stderr.write(f"offload: {len(sent):,} messages are there once, in order\n")
    return len(sent)
