"""Reading to a topic's end when its last entries contain no message: the reader gets all others and then stops."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pulsar
import pytest

from tests.acceptance.client.consumer.consuming import publish_with_apache
from tests.acceptance.client.publishing import publish_entries
from tests.support.keys import write_key_pair
from tests.unit.client.entries import compose, metadata, single
from vela.aio.client import Client
from vela.message import MessageId

UNREADABLE = compose(metadata(compression=1, uncompressed_size=500, num_messages_in_batch=10), b"\xff" * 99)


async def read_to_the_end(client: Client, topic: str) -> list[bytes]:
    found = []
    async with asyncio.timeout(20), await client.create_reader(topic, MessageId.earliest) as reader:
        while await reader.has_message_available():
            found.append((await reader.read_next()).data())
    return found


async def vela_read(service_url: str, topic: str) -> tuple[int | None, bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vela.cli", "read", topic),
        env={**os.environ, "VELA_URL": service_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, printed


async def test_a_reader_stops_when_the_last_entries_are_discarded(
    client: Client, topic: str, service_url: str
) -> None:
    await publish_entries(
        client, topic, (compose(metadata(partition_key="k"), b"kept"), 1), (UNREADABLE, 10), (UNREADABLE, 10)
    )
    assert await read_to_the_end(client, topic) == [b"kept"]
    async with asyncio.timeout(20):
        table = await client.create_table_view(topic)
    assert (len(table), table.get("k")) == (1, b"kept")
    await publish_entries(client, topic, (single(b"later"), 1))
    assert await read_to_the_end(client, topic) == [b"kept", b"later"]
    assert await vela_read(service_url, topic) == (1, b"kept\nlater\n")


async def test_a_reader_stops_when_the_last_entry_cannot_be_decrypted(
    client: Client, apache: pulsar.Client, topic: str, service_url: str, tmp_path: Path
) -> None:
    await publish_entries(client, topic, (single(b"plain"), 1))
    public, private = write_key_pair(tmp_path)
    await publish_with_apache(
        apache,
        topic,
        [b"sealed"],
        encryption_key="k",
        crypto_key_reader=pulsar.CryptoKeyReader(public, private),
    )
    assert await read_to_the_end(client, topic) == [b"plain"]
    assert await vela_read(service_url, topic) == (1, b"plain\n")


@pytest.mark.parametrize("entries", [1, 3])
async def test_a_reader_stops_at_once_when_no_entry_can_be_read(
    client: Client, topic: str, entries: int
) -> None:
    await publish_entries(client, topic, *[(UNREADABLE, 10)] * entries)
    assert await read_to_the_end(client, topic) == []
