"""A tiny asyncio broker around `ServerEngine`: enough for Apache's client to produce and to consume."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from broker.doors.binary.wire import events
from broker.doors.binary.wire.engine import ServerEngine
from broker.log.sends import Receipt
from vela.wire.entry import checksum_ok

LEDGER_ID = 77
MAX_MESSAGE_BYTES = 1_000_000


@dataclass
class ScriptedBroker:
    """Records what it gets, and delivers `entries` to the first consumer that grants permits."""

    url: str = ""
    sends: list[events.Send] = field(default_factory=list)
    acks: list[events.Ack] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)  # delivered at the first FLOW, entry ids from 0

    def answer(self, engine: ServerEngine, event: events.Event) -> None:
        match event:
            case events.Connect():
                engine.send_connected()
            case events.Ping():
                engine.send_pong()
            case events.PartitionMetadata():
                engine.send_partition_metadata(event.request_id, 0)
            case events.Lookup():
                engine.send_lookup(event.request_id, url=self.url)
            case events.OpenProducer():
                engine.send_producer_success(event.request_id, name=event.producer_name or "made-by-broker")
            case events.Send():
                self.sends.append(event)
                assert checksum_ok(event.entry_block)
                highest = event.highest_sequence_id or 0
                receipt = Receipt(event.sequence_id, highest, LEDGER_ID, len(self.sends) - 1, 0)
                engine.send_receipts(event.producer_id, [receipt])
            case events.Flow():
                entries, self.entries = self.entries, []
                for entry_id, entry in enumerate(entries):
                    engine.send_message(
                        event.consumer_id, ledger_id=LEDGER_ID, entry_id=entry_id, entry=entry
                    )
            case events.Ack():
                self.acks.append(event)
                if event.request_id is not None:
                    engine.send_ack_response(event.consumer_id, event.request_id)
            case events.Subscribe() | events.CloseProducer() | events.CloseConsumer():
                engine.send_success(event.request_id)
            case events.Unsupported():
                self.unsupported.append(event.name)
                engine.send_unsupported(event, "not in this test")
            case _:
                raise AssertionError(f"the script has no answer to {event}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine = ServerEngine(server_version="Vela test", max_message_bytes=MAX_MESSAGE_BYTES)
        try:
            while data := await reader.read(65536):
                for event in engine.receive(data):
                    self.answer(engine, event)
                writer.writelines(engine.data_to_send())
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def running(broker: ScriptedBroker) -> AsyncIterator[str]:
    """Serve on a free port of 127.0.0.1 and yield the service URL."""
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield broker.url
    finally:
        server.close()
        await server.wait_closed()
