"""The load for procrastinate: defer jobs, let a worker finish them, and print the rate as JSON.

It runs in a process that has the package on its path, and takes the generator's options as far as they apply. Deferring
a job stands for publishing a message, and finishing it for acking the message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from typing import Final

import procrastinate

__all__ = ["main"]

_TASK: Final = "job"
_DEFERRING: Final = 8  # connections, each with a commit per job: PostgreSQL syncs their commits together
_WORKING: Final = 8  # jobs at a time
_PATIENCE_S: Final = 600.0


def main() -> int:
    """Defer in a second process and work in this one: a Python process uses one core, and both need about one."""
    options = _options()
    began = time.perf_counter()
    deferring = multiprocessing.get_context("fork").Process(target=_defer, args=(options,), daemon=True)
    deferring.start()
    asyncio.run(asyncio.wait_for(_work(options), _PATIENCE_S))
    json.dump(
        {"per_s": options.count / (time.perf_counter() - began), "everything": options.count}, sys.stdout
    )
    return 0


def _defer(options: argparse.Namespace) -> None:
    asyncio.run(_defer_each(options))


async def _defer_each(options: argparse.Namespace) -> None:
    payloads = iter([os.urandom(options.bytes // 2).hex() for _ in range(options.count)])
    async with _app(options).open_async() as app:

        async def defer() -> None:
            for payload in payloads:
                await app.configure_task(_TASK, queue=options.topic).defer_async(payload=payload)

        await asyncio.gather(*(defer() for _ in range(_DEFERRING)))


async def _work(options: argparse.Namespace) -> None:
    finished: set[str] = set()
    all_finished = asyncio.Event()
    app = _app(options)

    async def job(payload: str) -> None:
        finished.add(payload)  # random, so no two jobs have the same
        if len(finished) == options.count:
            all_finished.set()

    app.task(name=_TASK)(job)
    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(queues=[options.topic], concurrency=_WORKING, install_signal_handlers=False)
        )
        await all_finished.wait()
        working.cancel()  # the worker then stores the last jobs as finished
        await asyncio.wait([working])


def _app(options: argparse.Namespace) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(
        conninfo=options.url, min_size=_DEFERRING + 2, max_size=_DEFERRING + 2
    )
    return procrastinate.App(connector=connector)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-work", choices=["cycle"])
    parser.add_argument("-system")
    parser.add_argument("-url")
    parser.add_argument("-topic")
    parser.add_argument("-bytes", type=int)
    parser.add_argument("-count", type=int)
    parser.add_argument("-window", type=int, help="not used: a job has its receipt before the next one")
    return parser.parse_args()
