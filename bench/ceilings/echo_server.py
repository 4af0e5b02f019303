"""A bare server with Vela's own Daphne and flow control, whose application only answers or passes frames on.

`/echo` answers each frame with one of a receipt's size. A connection to `/push/NAME` listens: it gets a frame of a
delivery's size for each frame that is sent to `/echo/NAME` after it has connected. The server reads and drops whatever
the listening connection sends. `python -m bench.ceilings.echo_server` prints its port.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import Any

from daphne.server import twisted_loop
from twisted.internet import reactor

from broker.conf import BrokerSettings
from broker.doors.asgi import Receive, Scope, Send
from broker.doors.http.daphne_server import DaphneServer
from broker.doors.websocket.transport import FrameTransport, transport_of
from broker.listening.connection_limits import ConnectionLimits
from broker.process.serving import SWITCH_INTERVAL_S

RECEIPT = b'{"result":"ok","messageId":"CAEQACAAKAAwAA==","errorCode":0,"schemaVersion":0}'
DELIVERY = b'{"messageId":"CAEQACAAKAAwAA==","redeliveryCount":0,'

_listeners: dict[str, FrameTransport] = {}


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, or pass on, the frames of one connection."""
    await receive()
    await send({"type": "websocket.accept"})
    transport = transport_of(scope)
    role, _, name = scope["path"].strip("/").partition("/")
    if role == "push":
        _listeners[name] = transport
    listener = _listeners.get(name)
    while (event := await receive())["type"] == "websocket.receive":
        if role == "echo":
            if listener is not None:
                listener.write_frames([DELIVERY + event["text"][1:].encode()], binary=False)
            transport.write_frames([RECEIPT], binary=False)


async def _serve() -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    settings = BrokerSettings()
    server = DaphneServer(application, settings=settings, limits=ConnectionLimits(settings))
    server.listen("127.0.0.1", 0)
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print(server.port, flush=True)
    await stopping.wait()
    await server.stop()


def main() -> None:
    """Serve until SIGTERM."""
    running: Any = reactor  # Twisted gives it no useful type
    asyncio.set_event_loop(twisted_loop)
    serving = twisted_loop.create_task(_serve())
    serving.add_done_callback(lambda _: running.stop())
    running.run(installSignalHandlers=False)
    serving.result()


if __name__ == "__main__":
    main()
