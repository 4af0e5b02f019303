"""Declare the operations of the admin REST API, with their paths and permissions.

    @operation(router, "DELETE", "/admin/v2/tenants/{segment:tenant}", Action.RULE)
    async def delete_tenant(request: AdminRequest, tenant: str) -> None: ...

The caller needs the given permission on the tenant, namespace, topic or subscription in the path. The first line of
each operation's docstring appears in docs/reference/admin-rest.md.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, ParamSpec, TypeVar, Union, get_args
from urllib.parse import unquote_plus

from django.http import HttpResponse
from django.urls import register_converter
from ninja import NinjaAPI, Router

from broker.core.access.permissions import Action, Subject
from broker.core.access.principal import Principal
from broker.core.errors import InvalidTopicName
from broker.doors.admin.catalogue import named
from broker.doors.admin.request import AdminRequest

__all__ = ["Described", "described", "operation"]

P = ParamSpec("P")
R = TypeVar("R")

ACTION_KEY: Final = "x-vela-action"
REFUSAL_KEY: Final = "x-vela-refused"


_WORDS: Final = {
    None: "nothing",
    Action.RULE: "be a superuser",
    Action.ADMINISTER: "administer the tenant",
    Action.PRODUCE: "produce",
    Action.CONSUME: "consume",
    Action.LOOK_UP: "produce or consume",
}


def _subject_of(names: Mapping[str, Any]) -> Subject:
    tenant, namespace, topic = (str(names.get(name, "")) for name in ("tenant", "namespace", "topic"))
    if topic:
        name = named(str(names.get("domain", "persistent")), tenant, namespace, topic)
        return Subject.of_topic(name, str(names.get("subscription", "")))
    return Subject.of_namespace(tenant, namespace) if namespace else Subject(tenant=tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One operation in a table of the documentation."""

    method: str
    path: str
    action: str
    summary: str
    refused: str = ""  # Why the operation refuses every request; empty if it does not


class _Segment:
    """One part of a path. As in Pulsar, %2F is a slash and + is a space."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        try:
            return unquote_plus(value, errors="strict")
        except UnicodeDecodeError:  # Django would take this ValueError for a path that does not match
            raise InvalidTopicName(f"{value} in the path is not percent-encoded UTF-8") from None

    def to_url(self, value: str) -> str:
        return value


class _Domain(_Segment):
    regex = "persistent|non-persistent"


class _Number(_Segment):
    regex = "-?[0-9]{1,19}"


register_converter(_Segment, "segment")
register_converter(_Domain, "domain")
register_converter(_Number, "number")


def _responses(returned: Any) -> dict[int, Any]:
    if returned is HttpResponse:
        return {200: None}  # Without a schema, Ninja sends the response unchanged
    kinds = [each for each in get_args(returned) if each is not NoneType] or [returned]
    may_be_none = returned in (None, Any) or NoneType in get_args(returned)
    responses = {} if returned is None else {200: Union[*kinds] if may_be_none else returned}
    return responses | {204: None} if may_be_none else responses


def operation(
    router: Router, method: str, path: str, action: Action | None, *, refused: str = "", media_type: str = ""
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Register an asynchronous operation. As in Pulsar, a result of None becomes 204 without a body.

    If `action` is None, the caller needs no permission. If the operation refuses every request, `refused` says why.
    """

    def register(view: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        # Ninja calls this function before reading parameters. A synchronous function would run in a thread.
        async def check(request: AdminRequest) -> Principal:
            if action is not None:
                request.broker.access.check(request.principal, action, _subject_of(request.path_names))
            return request.principal

        @functools.wraps(view)
        async def answer(*args: P.args, **kwargs: P.kwargs) -> Any:
            result = await view(*args, **kwargs)
            return HttpResponse(status=204) if result is None else result

        # Look up the type names in the module of `view`. Ninja would look them up in this module.
        signature = inspect.signature(view, eval_str=True)
        vars(answer)["__signature__"] = signature
        extra: dict[str, Any] = {ACTION_KEY: _WORDS[action], **({REFUSAL_KEY: refused} if refused else {})}
        if media_type:
            content = {media_type: {"schema": {"type": "string"}}}
            extra["responses"] = {200: {"content": content}}
        router.api_operation(
            [method],
            path,
            auth=check,
            response=_responses(signature.return_annotation),
            exclude_none=True,
            by_alias=True,
            operation_id=view.__name__,
            description=(view.__doc__ or "").strip(),
            openapi_extra=extra,
        )(answer)
        return view

    return register


def described(api: NinjaAPI) -> Iterator[Described]:
    """Yield every operation."""
    schema = api.get_openapi_schema(path_prefix="")
    for path, methods in schema["paths"].items():
        for method, each in methods.items():
            yield Described(
                method=method.upper(),
                path=path,
                action=each[ACTION_KEY],
                summary=each.get("description", "").split("\n")[0].rstrip("."),
                refused=each.get(REFUSAL_KEY, ""),
            )
