"""The connection itself: CONNECT, CONNECTED, authentication, keep-alive; and the two generic answers."""

from __future__ import annotations

from typing import Final

from vela.wire.binary.enums import ServerError
from vela.wire.binary.frames import simple_frame
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = [
    "auth_challenge",
    "auth_response",
    "connect",
    "connected",
    "error",
    "error_value",
    "frame_of",
    "ping",
    "pong",
    "success",
]


def frame_of(command: pb.BaseCommand) -> bytes:
    """The simple frame of a command."""
    return simple_frame(command.SerializeToString())


def error_value(code: ServerError) -> pb.ServerError.ValueType:
    """The generated type of an error code."""
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
    """CONNECT: the first frame of a client; `proxy_to_broker_url` is the host:port a proxy is asked for."""
    body = pb.CommandConnect(
        client_version=client_version,
        protocol_version=protocol_version,
        auth_method_name=auth_method,
        auth_data=auth_data,
        proxy_to_broker_url=proxy_to_broker_url,
        feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=body))


def connected(*, server_version: str, protocol_version: int, max_message_bytes: int) -> bytes:
    """CONNECTED: the broker's answer; clients close when the version text is missing."""
    body = pb.CommandConnected(
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_bytes,
        feature_flags=pb.FeatureFlags(
            supports_auth_refresh=True, supports_get_partitioned_metadata_without_auto_creation=True
        ),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CONNECTED, connected=body))


def auth_challenge(
    *, server_version: str, protocol_version: int, auth_method: str, challenge: bytes
) -> bytes:
    """AUTH_CHALLENGE: asks for (fresh) credentials."""
    body = pb.CommandAuthChallenge(
        server_version=server_version,
        protocol_version=protocol_version,
        challenge=pb.AuthData(auth_method_name=auth_method, auth_data=challenge),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.AUTH_CHALLENGE, authChallenge=body))


def auth_response(*, client_version: str, protocol_version: int, auth_method: str, data: bytes) -> bytes:
    """AUTH_RESPONSE to a challenge."""
    body = pb.CommandAuthResponse(
        client_version=client_version,
        protocol_version=protocol_version,
        response=pb.AuthData(auth_method_name=auth_method, auth_data=data),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.AUTH_RESPONSE, authResponse=body))


def ping() -> bytes:
    """PING."""
    return _PING


def pong() -> bytes:
    """PONG."""
    return _PONG


def success(request_id: int) -> bytes:
    """SUCCESS."""
    body = pb.CommandSuccess(request_id=request_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SUCCESS, success=body))


def error(request_id: int, code: ServerError, message: str) -> bytes:
    """ERROR; request_id -1 when it answers no request."""
    body = pb.CommandError(request_id=request_id & UINT64_MASK, error=error_value(code), message=message)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.ERROR, error=body))
