"""One message through Vela with Apache's own client."""

import os

import pulsar

URL = os.environ.get("PULSAR_URL", "pulsar://127.0.0.1:6650")

client = pulsar.Client(URL, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
consumer = client.subscribe("hello", "first-hour", consumer_type=pulsar.ConsumerType.Shared)
producer = client.create_producer("hello")

stored_as = producer.send(b"my first message")
print(f"stored as {stored_as.ledger_id()}:{stored_as.entry_id()}")

message = consumer.receive(timeout_millis=10_000)
print(f"received: {message.data().decode()}")
consumer.acknowledge(message)
client.close()
