"""Record what Apache's Python client and a Vela send to each other: `python -m tests.support.record_apache`.

It writes the files in tests/data/apache. The frames of the client's producers are the inputs of
tests/integration/client/consumer/test_recorded_frames.py. Run the module again for each new release of that client. The
keys among the files were made for this purpose and protect nothing.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar

from tests.support.keys import write_key_pair
from tests.support.vela import started_vela

__all__ = ["DATA", "MAX_MESSAGE_BYTES", "main", "recorded"]

DATA = Path(__file__).parent.parent / "data" / "apache"
MAX_MESSAGE_BYTES = 100_000  # so that a message in chunks is a small file


def recorded(name: str, side: str) -> list[bytes]:
    """Return what one side ("client" or "broker") sent in a scenario, connection by connection."""
    files = sorted(DATA.glob(f"{name}.{side}.*.gz"), key=lambda path: int(path.suffixes[-2][1:]))
    return [gzip.decompress(path.read_bytes()) for path in files]


@dataclass(slots=True)
class Relay:
    """Passes connections on to a port, and records both directions of each."""

    to_port: int
    from_client: list[bytearray] = field(default_factory=list)
    from_broker: list[bytearray] = field(default_factory=list)
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.to_port))
            for source, target, kept in (
                (client, broker, self.from_client),
                (broker, client, self.from_broker),
            ):
                kept.append(bytearray())
                threading.Thread(target=_pass_on, args=(source, target, kept[-1]), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    while data := _received(source):
        kept += data
        target.sendall(data)
    target.close()


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 16)
    except OSError:
        return b""


@contextmanager
def relaying(to_port: int) -> Iterator[Relay]:
    relay = Relay(to_port)
    threading.Thread(target=relay.serve, daemon=True).start()
    try:
        yield relay
    finally:
        relay.listener.close()


Scenario = Callable[[pulsar.Client, str], list[dict[str, Any]]]


def publishing(messages: list[dict[str, Any]], **options: Any) -> Scenario:
    """Return a scenario: a producer with these options sends these messages, which a consumer must get."""

    def run(client: pulsar.Client, topic: str) -> list[dict[str, Any]]:
        producer = client.create_producer(topic, producer_name="recorded", **options)
        for message in messages:
            content = message.get("text", "").encode() * message.get("times", 1)
            extra = {key: value for key, value in message.items() if key not in ("text", "times")}
            producer.send_async(content, lambda result, message_id: None, **extra)
        producer.flush()
        producer.close()
        return messages

    return run


def consuming(client: pulsar.Client, topic: str) -> list[dict[str, Any]]:
    """Let a consumer receive ten messages, acknowledge each, and leave."""
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=4, consumer_name="c"
    )
    producer = client.create_producer(topic, producer_name="recorded")
    for number in range(10):
        producer.send(b"%d" % number)
    for _ in range(10):
        consumer.acknowledge(consumer.receive(5000))
    consumer.close()
    producer.close()
    return []


def scenarios(public_key: str, private_key: str) -> dict[str, Scenario]:
    """Return the scenarios by the names of their files."""
    plain = [{"text": f"message {number}"} for number in range(30)]
    rich: list[dict[str, Any]] = [
        {"text": "with properties", "properties": {"colour": "grün", "empty": ""}},
        {"text": "with a key", "partition_key": "k-1", "ordering_key": "o-1"},
        {"text": "with a time", "event_timestamp": 1_700_000_000_123},
        {"text": "", "properties": {"only": "properties"}},
        {"text": "long ", "times": 5000},
    ]
    batching = {"batching_enabled": True, "batching_max_messages": 10, "batching_max_publish_delay_ms": 50}
    found: dict[str, Scenario] = {
        "single": publishing(plain),
        "batched": publishing(plain, **batching),
        "rich": publishing(rich),
        "rich_batched": publishing(rich, **batching),
        "keyed_batches": publishing(
            [{"text": f"{number}", "partition_key": f"k{number % 3}"} for number in range(12)],
            batching_type=pulsar.BatchingType.KeyBased,
            **batching,
        ),
        "chunked": publishing([{"text": "0123456789abcdef", "times": 15_000}], chunking_enabled=True),
        "encrypted": publishing(
            plain,
            encryption_key="mine",
            crypto_key_reader=pulsar.CryptoKeyReader(public_key, private_key),
            compression_type=pulsar.CompressionType.ZSTD,
            **batching,
        ),
        "consumer": consuming,
    }
    for codec in ("LZ4", "ZLib", "ZSTD", "SNAPPY"):
        kind = getattr(pulsar.CompressionType, codec)
        found[f"{codec.lower()}"] = publishing(rich, compression_type=kind)
        found[f"{codec.lower()}_batched"] = publishing(rich, compression_type=kind, **batching)
    return found


def main() -> None:
    """Write every scenario's files."""
    DATA.mkdir(parents=True, exist_ok=True)
    public_key, private_key = write_key_pair(DATA)
    expected: dict[str, list[dict[str, Any]]] = {}
    with started_vela({"VELA_MAX_MESSAGE_BYTES": str(MAX_MESSAGE_BYTES)}) as vela:
        for name, scenario in scenarios(public_key, private_key).items():
            with relaying(int(vela.environment["VELA_PULSAR_PORT"])) as relay:
                client = pulsar.Client(relay.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
                expected[name] = scenario(client, f"persistent://public/default/recorded-{name}")
                client.close()
            for side, connections in (("client", relay.from_client), ("broker", relay.from_broker)):
                for number, data in enumerate(connections):
                    (DATA / f"{name}.{side}.{number}.gz").write_bytes(gzip.compress(bytes(data), 9, mtime=0))
    (DATA / "messages.json").write_text(
        json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
