"""Kill Spark's driver, executors and Python workers while a stream copies a topic on a standalone cluster, then prove
that every row was copied exactly once.

`make pipeline-soak` runs it: `python -m tests.chaos.pipeline --messages 1000000 --kills 6 [--seed N]`.
"""

from __future__ import annotations

import argparse
import random
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vela as client_of_vela
from pipeline.checksum import Checksum, checksum_of_frame, message_digest
from pipeline.database import reading
from pipeline.session import spark_session
from pipeline.source.options import ReadOptions
from pipeline.source.plan import plan_read
from tests.chaos.stopping import end_on_sigterm, kill, started_driver
from tests.support.spark_cluster import SparkCluster, started_cluster
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until

__all__ = ["run_pipeline_soak"]

SOURCE = "persistent://public/soak/from"
TARGET = "persistent://public/soak/to"
BATCH_TARGET = "persistent://public/soak/to-in-a-batch"
PROGRESS_S = 600.0  # for a new driver, which starts Java first, to copy anything
END_S = 1800.0


def run_pipeline_soak(
    vela: VelaProcess, cluster: SparkCluster, *, messages: int, kills: int, seed: int
) -> dict[str, int]:
    """Copy this many messages while Spark's processes are killed. Return the number of kills by target.

    Fails if the copy differs from what was published.
    """
    rng = random.Random(seed)
    _make_topics(vela)
    published: list[Checksum] = []
    numbers = range(messages)
    producers = [
        threading.Thread(
            target=lambda part=part: published.append(_publish(vela, numbers[part::2])),
            daemon=True,  # a soak that is stopped does not wait for this thread
        )
        for part in (0, 1)
    ]
    done = {"driver": 0, "executor": 0, "python worker": 0}
    with tempfile.TemporaryDirectory() as folder:
        for producer in producers:
            producer.start()
        while sum(done.values()) < kills:
            with _driver(vela, cluster, Path(folder)) as driver:
                target = ""
                while target != "driver" and sum(done.values()) < kills:
                    # All waits together are shorter than the copy, so that the kills are spread over it.
                    _wait_for_copies(
                        vela, driver, _stored(vela, TARGET) + rng.randrange(messages // (kills + 2))
                    )
                    target = rng.choice(list(done))
                    # The cluster replaces a killed executor and repeats its tasks. `_driver` kills the driver itself.
                    if target == "executor":
                        kill(rng.choice(cluster.executors()))
                    elif target == "python worker":
                        kill(rng.choice(cluster.python_workers()))
                    done[target] += 1
                    sys.stderr.write(f"  kills {done}: {_stored(vela, TARGET):,} of {messages:,} copied\n")
        for producer in producers:
            producer.join()
        for _ in range(2):  # the second copy has nothing left to do
            with _driver(vela, cluster, Path(folder), "--to-the-end") as driver:
                assert driver.wait(END_S) == 0
    _compare(vela, sum(published, Checksum()), messages)
    return done


def _make_topics(vela: VelaProcess) -> None:
    client = client_of_vela.Client(vela.pulsar_url)
    client.create_producer("persistent://public/soak/first").close()
    vela.manage("setpolicy", "public/soak", "deduplication=true", "auto_create_partitions=3", "--yes")
    for topic in (SOURCE, TARGET, BATCH_TARGET):
        client.create_producer(topic).close()
    client.close()


def _publish(vela: VelaProcess, numbers: range) -> Checksum:
    client = client_of_vela.Client(vela.pulsar_url)
    producer = client.create_producer(
        SOURCE,
        batching_enabled=True,
        block_if_queue_full=True,
        compression_type=client_of_vela.CompressionType.LZ4,
    )
    digests = []
    for number in numbers:
        payload = b"%d:" % number + b"x" * (number % 300)
        producer.send_async(payload, None, partition_key=f"k{number % 1000}")
        digests.append(message_digest(payload, b"k%d" % (number % 1000), {}, 0))
    producer.flush()
    client.close()
    return Checksum.of_digests(digests)


@contextmanager
def _driver(
    vela: VelaProcess, cluster: SparkCluster, folder: Path, *more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a streaming driver, and kill it at the end."""
    command = [
        *(sys.executable, "-m", "tests.chaos.stream_copy", "--source", SOURCE, "--target", TARGET),
        *("--url", vela.database_url, "--service-url", vela.pulsar_url),
        *("--checkpoint", str(folder / "checkpoint"), *more),
    ]
    output = folder / "driver.log"
    try:
        with started_driver(command, cluster.environment, output) as driver:
            yield driver
    except AssertionError as error:
        raise AssertionError(
            f"{error}; the driver wrote:\n{output.read_text(errors='replace')[-4000:]}"
        ) from error


def _wait_for_copies(vela: VelaProcess, driver: subprocess.Popen[bytes], least: int) -> None:
    wait_until(
        lambda: driver.poll() is not None or _stored(vela, TARGET) > least,
        f"more than {least} copies",
        timeout_s=PROGRESS_S,
        every_s=0.1,
    )
    if driver.poll() is not None:
        raise AssertionError(f"the driver ended with {driver.returncode}")


def _stored(vela: VelaProcess, topic: str) -> int:
    options = ReadOptions.parse({"topic": topic, "url": vela.database_url})
    with reading(options, "counting") as connection:
        return plan_read(connection, options).messages


def _compare(vela: VelaProcess, published: Checksum, messages: int) -> None:
    """Copy the topic twice in a batch with one write id. Compare topic and copies with the published messages."""
    spark = spark_session("vela soak", master="")
    reader = spark.read.format("vela").option("url", vela.database_url)
    try:
        for _ in range(2):
            reader.load(topic=SOURCE).write.format("vela").mode("append").options(
                serviceUrl=vela.pulsar_url, topic=BATCH_TARGET, writeId="soak"
            ).save()
        for topic in (SOURCE, TARGET, BATCH_TARGET):
            stored = checksum_of_frame(reader.load(topic=topic))
            assert published.messages == messages
            assert stored == published, (
                f"{topic} has {stored.messages} messages, {stored}; expected {published}"
            )
    finally:
        spark.stop()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    given = parser.parse_args()
    end_on_sigterm()
    with started_vela() as vela, started_cluster() as cluster:
        done = run_pipeline_soak(vela, cluster, messages=given.messages, kills=given.kills, seed=given.seed)
    sys.stdout.write(
        f"seed {given.seed}: kills {done}, {given.messages:,} messages copied exactly once, checksums equal\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
