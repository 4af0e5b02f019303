"""Publish entries byte for byte, including broken ones that a producer would never send."""

from __future__ import annotations

from vela.aio.client import Client
from vela.errors import VelaError
from vela.wire.binary import commands, replies

__all__ = ["publish_entries"]


class _Receipts:
    """A producer for the connection that only counts receipts. Any other answer fails the test."""

    def __init__(self) -> None:
        self.stored = 0

    def on_receipt(self, connection: object, reply: replies.Receipt) -> None:
        self.stored += 1

    def on_send_error(self, connection: object, reply: replies.SendError) -> None:
        raise AssertionError(f"the broker refused an entry: {reply.message}")

    def on_closed_by_broker(self, connection: object) -> None:
        raise AssertionError("the broker closed the producer")

    def on_connection_lost(self, connection: object, error: VelaError) -> None:
        pass


async def publish_entries(client: Client, topic: str, *entries: tuple[bytes, int]) -> None:
    """Publish entries of this many messages each. Return when all are stored."""
    connection = await client.connection_for(topic)
    producer_id = client.new_producer_id()
    receipts = _Receipts()
    connection.producers[producer_id] = receipts
    await connection.request(
        lambda request_id: commands.producer(topic, producer_id=producer_id, request_id=request_id),
        timeout_s=10,
    )
    for number, (entry, messages) in enumerate(entries):
        connection.write(*commands.send(producer_id, number, entry, messages=messages))
    await connection.request(  # the broker answers when it has stored all of them
        lambda request_id: commands.close_producer(producer_id, request_id=request_id), timeout_s=10
    )
    connection.producers.pop(producer_id)
    client.release(connection)
    assert receipts.stored == len(entries)
