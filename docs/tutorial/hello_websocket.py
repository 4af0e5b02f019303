"""One message through Vela with a plain WebSocket library."""

import base64
import json
import os

from websockets.sync.client import connect

URL = os.environ.get("WEBSOCKET_URL", "ws://127.0.0.1:8080")
TOPIC = "persistent/public/default/hello"

with (
    connect(f"{URL}/ws/v2/consumer/{TOPIC}/by-websocket?subscriptionType=Shared") as consumer,
    connect(f"{URL}/ws/v2/producer/{TOPIC}") as producer,
):
    payload = base64.b64encode(b"my second message").decode()
    producer.send(json.dumps({"payload": payload, "context": "1"}))
    answer = json.loads(producer.recv(timeout=10))
    print(f"stored: {answer['result']}")

    message = json.loads(consumer.recv(timeout=10))
    print(f"received: {base64.b64decode(message['payload']).decode()}")
    consumer.send(json.dumps({"messageId": message["messageId"]}))
