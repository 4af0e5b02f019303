"""Consume the lines over WebSocket and compare them with the files. Takes the same argument as publish_library.py."""

import base64
import json
import os
import sys
import sysconfig
from pathlib import Path

from websockets.sync.client import connect

URL = os.environ.get("WEBSOCKET_URL", "ws://127.0.0.1:8080")
PATTERN = sys.argv[1] if len(sys.argv) > 1 else "*.py"

files = sorted(Path(sysconfig.get_path("stdlib")).glob(PATTERN))
wanted = b"".join(file.read_bytes() for file in files)
left = len(wanted.splitlines())

received: list[bytes] = []
acks: list[dict[str, str]] = []
path = "/ws/v2/consumer/persistent/public/default/library/readers"
with connect(f"{URL}{path}", compression=None) as consumer:
    while left:
        message = json.loads(consumer.recv(timeout=30))
        received.append(base64.b64decode(message["payload"]))
        acks.append({"messageId": message["messageId"]})
        left -= 1
        if len(acks) == 100 or not left:
            consumer.send(json.dumps(acks))  # several acks in one frame, an extension of Vela
            acks.clear()

equal = b"".join(received) == wanted
print(f"{len(received)} lines received, {'equal to' if equal else 'different from'} the files")
sys.exit(0 if equal else 1)
