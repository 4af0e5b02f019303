"""How an operation of the admin REST API is declared: its path, what its caller must be allowed, and on what.

    @operation(router, "DELETE", "/admin/v2/tenants/{segment:tenant}", Action.SUPERUSER)
    async def delete_tenant(request: AdminRequest, tenant: str) -> None: ...

The subject of the check follows from the names in the path. The table of all operations is read back from the API, for
docs/reference/admin-rest.md.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import unquote_plus

from django.http import HttpResponse
from django.urls import register_converter
from ninja import NinjaAPI, Router

from broker.doors.admin.request import AdminRequest

__all__ = ["Action", "Described", "Subject", "described", "operation", "require"]

P = ParamSpec("P")
R = TypeVar("R")

ACTION_KEY: Final = "x-vela-action"
REFUSAL_KEY: Final = "x-vela-refused"


class Action(StrEnum):
    """What a caller must be allowed to do."""

    ANYBODY = "nothing"
    SUPERUSER = "be a superuser"
    TENANT_ADMIN = "administer the tenant"
    NAMESPACE_ADMIN = "administer the namespace"
    PRODUCE = "produce"
    CONSUME = "consume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an operation is about; the parts that its path does not name are empty."""

    tenant: str = ""
    namespace: str = ""
    domain: str = ""
    topic: str = ""
    subscription: str = ""

    @classmethod
    def of_path(cls, names: dict[str, Any]) -> Subject:
        """Return the subject that the names in a path describe."""
        known = cls.__dataclass_fields__
        return cls(**{name: str(value) for name, value in names.items() if name in known})


def require(request: AdminRequest, action: Action, subject: Subject) -> None:
    """Check that the caller may do this. Raises AuthenticationFailed, NotAuthorized.

    Every caller is anonymous today and may do everything.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One line of the table of operations."""

    method: str
    path: str  # without converters
    action: str
    summary: str
    refused: str = ""  # why the operation is refused; empty if it is done


class _Segment:
    """One part of a path, form-decoded once: %2F is a slash and + is a blank, as Pulsar decodes topics."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return unquote_plus(value, errors="strict")  # ValueError: no such path

    def to_url(self, value: str) -> str:
        return value


class _Domain(_Segment):
    regex = "persistent|non-persistent"


class _Number(_Segment):
    regex = "-?[0-9]{1,19}"


register_converter(_Segment, "segment")
register_converter(_Domain, "domain")
register_converter(_Number, "number")


def operation(
    router: Router, method: str, path: str, action: Action, *, refused: str = ""
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """Register an asynchronous operation. A result of None is answered with 204 and no body, as Pulsar does.

    The check of the caller's rights runs before the operation. `refused` says why the operation only refuses.
    """

    def register(view: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(view)
        async def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
            request = args[0]
            assert isinstance(request, AdminRequest)
            require(request, action, Subject.of_path(kwargs))
            result = await view(*args, **kwargs)
            return HttpResponse(status=204) if result is None else result

        # Ninja would look up the names of types in this module, and not in the one that declares the operation.
        signature = inspect.signature(view, eval_str=True)
        vars(checked)["__signature__"] = signature
        returned = signature.return_annotation
        is_plain = returned in (None, HttpResponse)
        responses: dict[int, Any] = {204: None} if is_plain else {200: returned}
        router.api_operation(
            [method],
            path,
            response=responses,
            exclude_none=True,
            by_alias=True,
            operation_id=view.__name__,
            description=(view.__doc__ or "").strip(),
            openapi_extra={ACTION_KEY: action.value, **({REFUSAL_KEY: refused} if refused else {})},
        )(checked)
        return view

    return register


def described(api: NinjaAPI) -> Iterator[Described]:
    """Yield a line for each operation, in the order of their registration."""
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
