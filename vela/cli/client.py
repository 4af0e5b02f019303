"""Run the client library for the message commands, and word its errors so that they say what to change."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from vela.cli.errors import CliError, Exit
from vela.cli.settings import Settings, settings, without_credentials

if TYPE_CHECKING:
    from vela.aio import Client
    from vela.authentication import Authentication
    from vela.errors import VelaError

__all__ = ["as_cli_error", "authentication_of", "run_with_client"]

R = TypeVar("R")
_OPERATION_S: Final = 15
_AWAY: Final = frozenset(
    (
        errno.ECONNREFUSED,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.ENETDOWN,
        errno.ETIMEDOUT,
    )
)
_WEBSOCKETS: Final = {"http": "ws", "https": "wss"}  # `runhandlers` also accepts http in VELA_URL


def run_with_client(topic: str, work: Callable[[Client], Awaitable[R]]) -> R:
    """Run `work` with a client that reaches the broker, and return its result. Raises CliError if the client fails.

    Looks up the topic first, without retries, so that a wrong address fails at once.
    """
    asked = settings()

    async def main() -> R:
        from vela.aio import Client
        from vela.errors import VelaError

        try:
            async with Client(
                _service_url(asked.url),
                authentication=authentication_of(asked) if asked.for_broker else None,
                operation_timeout_seconds=_OPERATION_S,
                stats_interval_in_seconds=0,
                tls_trust_certs_file_path=asked.tls.trust or None,
                tls_validate_hostname=True,
                tls_certificate_file_path=asked.tls.certificate or None,
                tls_private_key_file_path=asked.tls.key or None,
            ) as client:
                client.release(await client.connection_for(topic))
                return await work(client)
        except VelaError as error:
            raise as_cli_error(error, asked) from error

    _quiet()
    return asyncio.run(main())


def authentication_of(asked: Settings) -> Authentication | None:
    """Return the credentials for the broker; None if there are none. Raises InvalidConfiguration."""
    from vela.authentication import token_authentication

    oauth2 = asked.oauth2
    if not asked.uses_oauth2:
        return token_authentication(asked.token, asked.token_file)
    from vela.aio.oauth2 import AuthenticationOauth2
    from vela.errors import InvalidConfiguration

    if asked.token or asked.token_file:
        raise InvalidConfiguration("both a token and OAuth 2.0 credentials are given: give one of them")
    fields = {
        "issuer_url": oauth2.issuer_url,
        "private_key": oauth2.key_file,
        "audience": oauth2.audience,
        "scope": oauth2.scope,
    }
    return AuthenticationOauth2(json.dumps(fields), tls_trust_certs_file_path=asked.tls.trust or None)


def as_cli_error(error: VelaError, asked: Settings) -> CliError:
    """Turn a client error into a CliError with the exit code for its kind."""
    from vela import errors

    code = type(error).__name__
    if isinstance(error, errors.ConnectError):
        return CliError(f"{error}; {_about_connecting(error.__cause__)}", Exit.FAILED, code=code)
    if isinstance(error, errors.InvalidUrl):
        text = f"the broker's address is {without_credentials(asked.url)!r}: set VELA_URL or --url to ws://host:8080 or pulsar://host:6650"
        return CliError(text, Exit.USAGE, code=code)
    if isinstance(error, errors.Timeout | errors.TopicNotFound | errors.SubscriptionNotFound):
        return CliError(str(error), Exit.NOTHING, code=code)
    if isinstance(error, errors.AuthenticationError):
        return CliError(str(error), Exit.NOT_ALLOWED, code=code)
    if isinstance(error, errors.AuthorizationError):
        text = f"{error}; an admin gives the role a permission with `manage.py permission set`"
        return CliError(text, Exit.NOT_ALLOWED, code=code)
    if isinstance(error, errors.InvalidConfiguration | errors.InvalidTopicName):
        return CliError(str(error), Exit.USAGE, code=code)
    return CliError(str(error), Exit.FAILED, code=code)


def _about_connecting(cause: BaseException | None) -> str:
    """Return what to change after a failed connection."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            "set VELA_CLIENT_TRUST_FILE or --tls-trust-file to the certificate of the authority that signed it, and"
            " name the host in VELA_URL or --url as the certificate does"
        )
    start = "start the broker, or " if _is_away(cause) else ""
    return f"{start}set VELA_URL or --url to the broker's address"


def _is_away(cause: BaseException | None) -> bool:
    """Return whether the connection failed because nothing listens there or the host is unreachable."""
    if not isinstance(cause, OSError):
        return False
    # If a name has several addresses, asyncio joins their errors into one OSError without an errno.
    return cause.errno in _AWAY or (cause.errno is None and "Connect call failed" in str(cause))


def _service_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{_WEBSOCKETS.get(scheme, scheme)}{separator}{rest}"


def _quiet() -> None:
    """Write the client's warnings to standard error as sentences, without level and time."""
    import logging

    from vela.cli.text.output import one_line

    class Sentence(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return one_line(f"vela: {record.getMessage()}")

    handler = logging.StreamHandler()
    handler.setFormatter(Sentence())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    # A program's log gets only the 1st, 2nd, 4th … discarded entry. A user of the command line wants each of them.
    logging.getLogger("vela.aio.deliveries.intake").setLevel(logging.DEBUG)
