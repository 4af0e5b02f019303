"""Builders for CONNECTED, AUTH_CHALLENGE, SUCCESS and ERROR."""

from __future__ import annotations

from vela.wire.binary.commands.connection import error_value, frame_of
from vela.wire.binary.enums import ServerError
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

__all__ = ["auth_challenge", "connected", "error", "success"]


def connected(*, server_version: str, protocol_version: int, max_message_bytes: int) -> bytes:
    """Build CONNECTED."""
    body = pb.CommandConnected(
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_bytes,
        feature_flags=pb.FeatureFlags(
            supports_auth_refresh=True,
            supports_topic_watchers=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
            supports_topic_watcher_reconcile=True,
        ),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.CONNECTED, connected=body))


def auth_challenge(
    *, server_version: str, protocol_version: int, auth_method: str, challenge: bytes
) -> bytes:
    """Build AUTH_CHALLENGE."""
    body = pb.CommandAuthChallenge(
        server_version=server_version,
        protocol_version=protocol_version,
        challenge=pb.AuthData(auth_method_name=auth_method, auth_data=challenge),
    )
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.AUTH_CHALLENGE, authChallenge=body))


def success(request_id: int) -> bytes:
    """Build SUCCESS."""
    body = pb.CommandSuccess(request_id=request_id)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.SUCCESS, success=body))


def error(request_id: int, code: ServerError, message: str) -> bytes:
    """Build ERROR. `request_id` is -1 if the error answers no request."""
    body = pb.CommandError(request_id=request_id & UINT64_MASK, error=error_value(code), message=message)
    return frame_of(pb.BaseCommand(type=pb.BaseCommand.ERROR, error=body))
