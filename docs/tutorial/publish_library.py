"""Publish Python's standard library line by line with Apache's client. An argument chooses fewer files: 'a*.py'."""

import os
import sys
import sysconfig
from pathlib import Path

import pulsar

URL = os.environ.get("PULSAR_URL", "pulsar://127.0.0.1:6650")
PATTERN = sys.argv[1] if len(sys.argv) > 1 else "*.py"

files = sorted(Path(sysconfig.get_path("stdlib")).glob(PATTERN))
lines = b"".join(file.read_bytes() for file in files).splitlines(keepends=True)

client = pulsar.Client(URL, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
# Make the subscription before the first message: a new subscription begins at the end of the topic.
client.subscribe("library", "readers").close()

refused: list[pulsar.Result] = []


def answered(result: pulsar.Result, _message_id: pulsar.MessageId) -> None:
    if result != pulsar.Result.Ok:
        refused.append(result)


producer = client.create_producer("library", batching_enabled=True, block_if_queue_full=True)
for line in lines:
    producer.send_async(line, answered)
producer.flush()
client.close()
print(f"{len(lines)} lines sent, {len(refused)} refused")
