"""The connection itself: CONNECT, authentication, keep-alive."""

from __future__ import annotations

from typing import Final

from vela.wire.binary.enums import ServerError
from vela.wire.binary.frames import simple_frame
from vela.wire.pb import vela_pulsar_pb2 as pb

__all__ = [
    "auth_response",
    "connect",
    "error_value",
    "frame_of",
    "ping",
    "pong",
]


def frame_of(command: pb.BaseCommand) -> bytes:
    """Return the simple frame of a command."""
    return simple_frame(command.SerializeToString())


def error_value(code: ServerError) -> pb.ServerError.ValueType:
    """Return the generated type of an error code."""
    return pb.ServerError.ValueType(code)


_PING: Final = frame_of(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))
_PONG: Final = frame_of(pb.BaseCommand(type=pb.BaseCommand.PONG, pong=pb.CommandPong()))


def connect(
    *,
    client_version: str,
    protocol_version: int,
    auth_method: str | None = None,
    auth_data: bytes | None = None,
    proxy_to_broker_url: str | None = None,
) -> bytes:
    """CONNECT: a client's first frame. `proxy_to_broker_url`: the host:port to which a proxy should connect."""
    body = pb.CommandConnect(
        client_version=client_version,
        protocol_version=protocol_version,
        auth_method_name=auth_method,
        auth_data=auth_data,
        proxy_to_broker_url=proxy_to_broker_url,
        feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=body))


def auth_response(*, client_version: str, protocol_version: int, auth_method: str, data: bytes) -> bytes:
    """AUTH_RESPONSE: the answer to an AUTH_CHALLENGE."""
    body = pb.CommandAuthResponse(
        client_version=client_version,
        protocol_version=protocol_version,
        response=pb.AuthData(auth_method_name=auth_method, auth_data=data),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.AUTH_RESPONSE, authResponse=body))


def ping() -> bytes:
    """PING: asks the peer for a PONG."""
    return _PING


def pong() -> bytes:
    """PONG: answers a PING."""
    return _PONG
