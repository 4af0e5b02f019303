"""`python -m bench.peers`: give several brokers the same work, one after the other, and print one table."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from bench.figures import Figure
from bench.load.peers.binary import PeerFailed
from bench.machine import describe_machine
from bench.peers.generator import Generator
from bench.peers.programs import ProgramFailed
from bench.peers.server import Server
from bench.peers.servers import nats, pgmq, procrastinate, pulsar, rabbitmq, vela
from bench.peers.table import answer_key, table
from bench.peers.works import WORKS, Task, Work, suits
from bench.results_file import RESULTS, keep, load

_SERVERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[Server]]]] = {
    "vela": vela.started,
    "pulsar": pulsar.started,
    "nats": nats.started,
    "rabbitmq": rabbitmq.started,
    "pgmq": pgmq.started,
    "procrastinate": procrastinate.started,
}
_ANSWERS: Final = RESULTS.with_name("peers.json")


def main() -> int:
    """Measure and print. Return 1 if a server could not be started or failed at its work."""
    options = _options()
    failed = False
    for name in options.server or _SERVERS if not options.table else ():
        try:
            _compare(name, options)
        except (ProgramFailed, PeerFailed) as error:
            _say(f"{name}: {error}")
            failed = True
    print(table(load(_ANSWERS), list(_SERVERS)), end="")
    return 1 if failed else 0


def _compare(name: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="vela-peers-") as folder_name:
        folder = Path(folder_name)
        generator = Generator(folder)
        with _SERVERS[name](folder) as server:
            for key in options.work or WORKS:
                work = WORKS[key]
                if not suits(work, server):
                    continue
                facts = {**describe_machine(folder), **server.facts}
                figures = _measure(work, server, generator, options)
                keep(answer_key(name, key), figures, facts, is_quick=options.quick, path=_ANSWERS)


def _measure(work: Work, server: Server, generator: Generator, options: argparse.Namespace) -> list[Figure]:
    """Return the figures that the work names. The note of each has the last run's CPU time and commits per message."""
    runs: dict[str, list[float]] = {figure: [] for figure in work.figures}
    note = ""
    for _ in range(options.repeats):
        task = Task(
            server=server,
            generator=generator,
            warm_up_s=0.5 if options.quick else 2.0,
            run_s=2.0 if options.quick else 10.0,
            topic=f"peers_{secrets.token_hex(4)}",
        )
        work.prepare(task)
        cpu, commits = server.cpu_s(), server.commits and server.commits()
        outcome = work.run(task)
        parts = {part: used - cpu[part] for part, used in server.cpu_s().items()}
        note = ", ".join(f"{part} {1e6 * used / outcome.messages:.2f} µs" for part, used in parts.items())
        if server.commits and commits is not None:
            note += f"; {(server.commits() - commits) / outcome.messages:.4f} commits"
        for figure, values in runs.items():
            values.append(outcome.values[figure])
        reached = ", ".join(f"{values[-1]:,.2f}" for values in runs.values())
        _say(f"{work.title}: {reached} {work.unit}; a message: {note}")
    return [
        Figure(name=figure, unit=work.unit, runs=tuple(values), note=note) for figure, values in runs.items()
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description="See bench/METHODOLOGY.md. Needs Go; Java with Maven for Pulsar; rabbitmq-server.",
    )
    parser.add_argument("--server", action="append", choices=_SERVERS, help="only this server (repeatable)")
    parser.add_argument("--work", action="append", choices=WORKS, help="only this work (repeatable)")
    parser.add_argument("--repeats", type=int, default=3, help="runs for each figure")
    parser.add_argument("--quick", action="store_true", help="short runs, which only show that it works")
    parser.add_argument("--table", action="store_true", help="measure nothing; print what was measured")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stderr.write(f"  {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
