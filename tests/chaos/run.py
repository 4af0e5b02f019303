"""Kill processes at random moments under a workload, then prove that no message was lost, skipped or stored twice.

`make chaos` runs the long form: `python -m tests.chaos.run --kills 10 --messages 100000 [--seed N]`.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from tests.chaos.workload import RECEIVER_QUEUE, Workload
from tests.support.api import create_topic
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until
from vela.wire.entry import decode_messages

__all__ = ["Findings", "Kind", "run_chaos"]

TARGETS = ("broker", "postgresql", "worker-tick")
FLUSH_WINDOW_S = 1.5  # cursors are flushed within 1 s; half a second for the flush itself
RECOVERY_S = 60.0
UNKNOWN = "vela_writer_unknown_outcomes_total"


@dataclass(slots=True)
class Findings:
    """The result of a run."""

    seed: int
    kills: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    receipted: int = 0
    delivered_again: int = 0  # deliveries beyond the first
    delivered_again_limit: int = 0  # the number that unflushed acks and prefetched messages explain
    # Messages that are in two entries, because a client resends each message that a killed broker did not confirm.
    stored_twice: int = 0
    stored_twice_limit: int = 0  # the sends that had no receipt when the broker was killed
    unknown_outcomes: int = 0

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: kills {self.kills}, {self.sent} sent, {self.receipted} receipted, 0 lost; "
            f"delivered again {self.delivered_again} (explained: up to {self.delivered_again_limit}); "
            f"stored twice by clients' own resends {self.stored_twice} (up to {self.stored_twice_limit}); "
            f"unknown commit outcomes resolved {self.unknown_outcomes}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of workload. With `deduplicated`, the topic's policy is that resent messages are not stored again."""

    shared: bool = True
    batching: bool = True
    deduplicated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A workload on its own topic, and its findings."""

    workload: Workload
    findings: Findings


def run_chaos(
    vela: VelaProcess, *, kills: int, messages: int, seed: int, kinds: Sequence[Kind] = (Kind(),)
) -> list[Findings]:
    """Kill each target `kills` times while workloads of all kinds publish at least `messages` messages each.

    Return the findings of each workload. Raises AssertionError with what went wrong.
    """
    chance = random.Random(seed)
    order = list(TARGETS) * kills
    chance.shuffle(order)
    rate_per_s = max(500, messages // max(1, 3 * len(order)))
    trials = [
        _Trial(workload=_workload(vela, f"chaos-{seed}-{number}", kind, rate_per_s), findings=Findings(seed))
        for number, kind in enumerate(kinds)
    ]
    for trial in trials:
        trial.workload.start()
    try:
        for target in order:
            _kill(vela, trials, target, chance)
        for trial in trials:
            _finish(trial.workload, messages)
    finally:
        for trial in trials:
            trial.workload.stop()
    unknown_outcomes = _metric(vela, UNKNOWN)
    for trial, kind in zip(trials, kinds, strict=True):
        findings = trial.findings
        findings.sent, findings.receipted = trial.workload.sent, len(trial.workload.record.receipts)
        findings.unknown_outcomes += unknown_outcomes
        _check(vela, trial.workload, findings)
        if kind.deduplicated:
            assert not findings.stored_twice, (
                f"{findings.stored_twice} messages stored twice in spite of deduplication"
            )
    return [trial.findings for trial in trials]


def _workload(vela: VelaProcess, topic: str, kind: Kind, rate_per_s: int) -> Workload:
    if kind.deduplicated:
        create_topic(vela, topic, deduplication="true")
    return Workload(
        vela.pulsar_url,
        topic,
        subscription="checked",
        shared=kind.shared,
        rate_per_s=rate_per_s,
        batching=kind.batching,
        deduplicated=kind.deduplicated,
    )


def _kill(vela: VelaProcess, trials: Sequence[_Trial], target: str, chance: random.Random) -> None:
    # A commit is under way about half of the time, so a random moment will often interrupt one.
    moment = time.monotonic() + chance.uniform(0.05, 1.0)
    wait_until(lambda: time.monotonic() >= moment, "a random moment")
    # The next broker counts from 0 again.
    unknown_outcomes = _metric(vela, UNKNOWN) if target == "broker" else 0
    records = [trial.workload.record for trial in trials]
    unanswered = [
        trial.workload.sent - len(record.receipts) - len(record.failed)
        for trial, record in zip(trials, records, strict=True)
    ]
    killed_s = time.monotonic()
    vela.kill(target)
    answered = [len(record.receipts) for record in records]
    for trial, unanswered_then, answered_then in zip(trials, unanswered, answered, strict=True):
        findings, record = trial.findings, trial.workload.record
        findings.kills[target] = findings.kills.get(target, 0) + 1
        findings.unknown_outcomes += unknown_outcomes
        wait_until(
            lambda record=record, least=answered_then + 10: len(record.receipts) > least,  # type: ignore[misc]
            f"receipts after kill -9 of {target} (seed {findings.seed})",
            timeout_s=RECOVERY_S,
        )
        if target == "broker":
            # Until the client noticed the kill, it sent at most as many messages as its pending limit.
            findings.stored_twice_limit += unanswered_then + 2000
            unflushed = sum(1 for at_s, _ in record.acks if killed_s - FLUSH_WINDOW_S <= at_s)
            findings.delivered_again_limit += unflushed + 2 * RECEIVER_QUEUE
        elif target == "postgresql":
            # The broker keeps running and remembers acks, and clients stay connected.
            findings.delivered_again_limit += 2 * RECEIVER_QUEUE


def _finish(workload: Workload, messages: int) -> None:
    wait_until(lambda: workload.sent >= messages, "all messages sent", timeout_s=600)
    workload.stop_sending()
    _wait_for_delivery(workload)


def _wait_for_delivery(workload: Workload) -> None:
    """Wait until every message with a receipt was delivered, as long as there is progress."""
    while missing := len(workload.outstanding()):
        before = missing
        wait_until(
            lambda before=before: len(workload.outstanding()) < before,  # type: ignore[misc]
            f"{missing} receipted messages, such as {sorted(workload.outstanding())[:5]}",
            timeout_s=RECOVERY_S,
        )


def _check(vela: VelaProcess, workload: Workload, findings: Findings) -> None:
    record = workload.record
    assert not record.failed, f"sends failed: {list(record.failed.items())[:5]}"
    assert findings.receipted == findings.sent, f"{findings.sent - findings.receipted} sends got no answer"
    stored, twice = _stored(vela.database_url, workload.topic)
    numbers = set(stored.values())
    for number, (ledger, entry, batch_index) in record.receipts.items():
        if ledger < 0:  # a duplicate: the first send was stored
            assert number in numbers, f"message {number} was said to be stored already and is not"
            continue
        found = stored.get((ledger, entry, max(0, batch_index)))
        assert found == number, f"receipt of message {number} names {ledger}:{entry}, which holds {found}"
    lost = record.receipts.keys() - record.deliveries.keys()
    assert not lost, f"{len(lost)} receipted messages were passed over: {sorted(lost)[:10]}"
    findings.stored_twice = twice
    assert twice <= findings.stored_twice_limit, f"{twice} messages stored twice, more than clients resent"
    if not findings.kills.get("broker"):
        assert twice == 0, f"{twice} messages stored twice though no client ever had to resend"
    findings.delivered_again = sum(count - 1 for count in record.deliveries.values())
    limit = findings.delivered_again_limit + twice
    assert findings.delivered_again <= limit, f"{findings.delivered_again} duplicates, explained are {limit}"


def _stored(database_url: str, topic: str) -> tuple[dict[tuple[int, int, int], int], int]:
    """Return message numbers by (ledger, entry, index), and how many are duplicates. Check that no entry is missing."""
    stored: dict[tuple[int, int, int], int] = {}
    expected: dict[int, int] = {}
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT e.ledger_id, e.entry_id, e.data FROM vela_entry e JOIN vela_topic t ON t.id = e.topic_id"
            " WHERE t.name = %s ORDER BY 1, 2",
            (f"persistent://public/default/{topic}",),
        )
        for ledger, entry, data in rows:
            assert entry == expected.get(ledger, 0), f"ledger {ledger} has a gap before entry {entry}"
            expected[ledger] = entry + 1
            for index, message in enumerate(decode_messages(bytes(data), max_message_bytes=5 * 1024 * 1024)):
                stored[ledger, entry, index] = int(message.payload)
    return stored, len(stored) - len(set(stored.values()))


def _metric(vela: VelaProcess, name: str) -> int:
    try:
        with urllib.request.urlopen(f"{vela.http_url}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return 0
    return int(
        sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))
    )


def _logs(vela: VelaProcess) -> list[str]:
    """Return the end of each process's log, to find the cause."""
    return [
        f"== {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-6000:]}"
        for log in sorted(vela.data_dir.glob("log/*.log"))
    ]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each process")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbits(31) if options.seed is None else options.seed
    print(f"chaos: seed {seed}", flush=True)
    with started_vela() as vela:
        try:
            (findings,) = run_chaos(vela, kills=options.kills, messages=options.messages, seed=seed)
        except AssertionError:
            print(vela.text(), *_logs(vela), sep="\n")
            raise
    print(findings)
    if not findings.unknown_outcomes:
        print("no commit's outcome was unknown in this run: run it again with another seed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
