"""The requests of the pull client, over httpx."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import httpx

from vela.aio.connections.credentials import credentials_of
from vela.aio.connections.tls import TlsOptions
from vela.authentication import Authentication
from vela.core.service_url import is_host
from vela.errors import (
    AuthenticationError,
    AuthorizationError,
    ConnectError,
    ConsumerBusy,
    InvalidConfiguration,
    InvalidUrl,
    ServiceUnitNotReady,
    SubscriptionNotFound,
    Timeout,
    TooManyLookupRequestException,
    TopicNotFound,
    UnknownError,
    VelaError,
)
from vela.wire.errors import RemoteProtocolError
from vela.wire.pull.reading import ReadAnswer, decode_answer, pull_query, topic_path

__all__ = ["PullHttp", "base_url"]

_SCHEMES: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_THIS_COMPUTER: Final = ("127.0.0.1", "localhost", "::1")
_PLAIN_TIMEOUT_S: Final = 10.0  # limit for requests that the broker answers at once
_ERRORS: Final[Mapping[int, type[VelaError]]] = {
    400: InvalidConfiguration,
    401: AuthenticationError,
    403: AuthorizationError,
    404: TopicNotFound,
    409: ConsumerBusy,
    429: TooManyLookupRequestException,
    503: ServiceUnitNotReady,
}


def base_url(service_url: str) -> str:
    """Return the http:// or https:// URL for a service URL, which may begin with ws:// or wss://. Raises InvalidUrl."""
    try:
        parts = urlsplit(service_url.strip())
        host = parts.hostname
        is_sound = parts.scheme in _SCHEMES and host is not None and is_host(host) and parts.port != 0
        is_sound = is_sound and not (parts.query or parts.fragment)
    except ValueError:  # an invalid port or an unclosed bracket
        is_sound = False
    if not is_sound:
        raise InvalidUrl(f"{service_url!r} is not a URL to pull from: use http://host:8080 or https://host")
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, parts.path.rstrip("/"), "", ""))


class PullHttp:
    """Requests for one topic over HTTP. All are safe to repeat.

    They raise Timeout, ConnectError or another VelaError. Its `retriable` says whether repeating the request may help.
    """

    def __init__(
        self, service_url: str, topic: str, *, authentication: Authentication, tls: TlsOptions
    ) -> None:
        url = base_url(service_url)
        self._authentication = authentication
        self._path = topic_path(topic)
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=None,  # noqa: S113 - `_ask` limits each request as a whole
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            verify=tls.context() if url.startswith("https:") else True,
            # A proxy named in the environment cannot reach a server that listens only on this computer.
            trust_env=urlsplit(url).hostname not in _THIS_COMPUTER,
        )

    async def queues(self) -> int:
        """Return the number of the topic's queues, at least 1."""
        fields = await self._json("GET", f"/pull/v1-queues/{self._path}")
        return _positive(fields, "queues")

    async def pull(
        self,
        *,
        queue: int,
        offset: int,
        max_messages: int,
        tags: str = "*",
        property_filter: str = "",
        hold_ms: int = 0,
        timeout_s: float = _PLAIN_TIMEOUT_S,
    ) -> ReadAnswer:
        """Pull messages from a queue. `hold_ms` 0 = the broker answers at once."""
        query = pull_query(
            offset=offset,
            queue=queue,
            max_messages=max_messages,
            tags=tags,
            property_filter=property_filter,
            hold_ms=hold_ms,
        )
        body = await self._ask("GET", f"/pull/v1/{self._path}?{query}", timeout_s)
        try:
            return decode_answer(body, offset=offset)
        except RemoteProtocolError as error:
            raise UnknownError(str(error)) from error

    async def committed(self, queue: int, subscription: str) -> int | None:
        """Return the offset that a group has committed to the broker, or None."""
        try:
            fields = await self._json("GET", self._offset_path(queue, subscription))
        except SubscriptionNotFound:
            return None
        return _positive(fields, "offset")

    async def commit(self, queue: int, subscription: str, offset: int) -> int:
        """Commit a group's offset. Return the broker's offset: a commit never moves it back."""
        fields = await self._json("PUT", f"{self._offset_path(queue, subscription)}&offset={offset}")
        return _positive(fields, "offset")

    async def close(self) -> None:
        """Close the connections. Running requests fail."""
        await self._client.aclose()

    def _offset_path(self, queue: int, subscription: str) -> str:
        return f"/pull/v1-offset/{self._path}?" + urlencode({"queue": queue, "subscription": subscription})

    async def _json(self, method: str, path: str) -> dict[str, Any]:
        body = await self._ask(method, path, _PLAIN_TIMEOUT_S)
        fields = _fields(body)
        if fields is None:
            raise UnknownError(f"{path}: not an answer: {body[:100]!r}")
        return fields

    async def _ask(self, method: str, path: str, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                secret = await credentials_of(self._authentication)
                headers = _authorization(self._authentication.method, secret)
                response = await self._client.request(method, path, headers=headers)
        except TimeoutError:
            raise Timeout(f"{path}: no answer within {timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise ConnectError(f"{self._client.base_url}: {error or type(error).__name__}") from error
        if response.status_code == 401:
            self._authentication.refused(secret)
        if response.status_code != 200:
            raise _refused(path, response)
        return response.content


def _refused(path: str, response: httpx.Response) -> VelaError:
    fields = _fields(response.content) or {}
    reason = fields.get("reason") or response.reason_phrase
    kind = _ERRORS.get(response.status_code, UnknownError)
    if kind is TopicNotFound and path.startswith("/pull/v1-offset/") and str(reason).startswith("no group "):
        kind = SubscriptionNotFound
    return kind(f"{path.partition('?')[0]}: {response.status_code}: {reason}")


def _fields(body: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _positive(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or value < 0:
        raise UnknownError(f"{name} is {value!r} in an answer")
    return value


def _authorization(method: str, secret: bytes) -> dict[str, str]:
    if method == "token":
        return {"Authorization": f"Bearer {secret.decode()}"}
    if method == "basic":
        return {"Authorization": f"Basic {base64.b64encode(secret).decode()}"}
    return {}
