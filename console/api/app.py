"""The ninja application behind `/api/v1`, with its parser and its error handlers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, cast

import psycopg
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern
from django.utils.datastructures import MultiValueDict
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Router
from ninja.errors import HttpError, ValidationError, ValidationErrorContext
from ninja.operation import Operation
from ninja.parser import Parser
from pydantic import BaseModel

from console.api.access import LOOKS
from console.api.problems import Problem, database_problem, no_such_address

__all__ = ["api_of", "patterns_of", "read", "unknown_address_of"]

logger = logging.getLogger(__name__)

_LONGEST_SHOWN = 80

View = Callable[..., HttpResponseBase]


def read(router: Router, path: str, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an operation that answers GET and HEAD."""
    return router.api_operation(["GET", "HEAD"], path, **more)


def api_of(*routers: Router) -> NinjaAPI:
    """Return the application with the operations of these routers."""
    api = _Api(
        title="Vela",
        version="1",
        description="Acts are planned, applied and undone; reads consume nothing.",
        openapi_url=None,
        docs_url=None,
        urls_namespace="api",
        auth=LOOKS,
        parser=_Parser(),
    )
    handlers: list[tuple[type[Exception], Callable[..., HttpResponse]]] = [
        (Problem, lambda request, problem: problem.response()),
        (ValidationError, _invalid),
        (HttpError, _not_json),
        (RequestDataTooBig, _too_big),
        (DatabaseError, _database_failed),
        (psycopg.Error, _database_failed),
    ]
    for error, handler in handlers:
        api.add_exception_handler(error, handler)
    for router in routers:
        api.add_router("", router)
    return api


def patterns_of(api: NinjaAPI) -> list[URLPattern]:
    """Return the URL patterns of the operations. Leave out ninja's root view, which answers with HTML."""
    patterns = [pattern for pattern in api.urls[0] if isinstance(pattern, URLPattern)]
    for pattern in patterns:
        pattern.callback = _answered(cast("View", pattern.callback))
    return [pattern for pattern in patterns if pattern.name != "api-root"]


def unknown_address_of(api: NinjaAPI) -> View:
    """Return the view for addresses without an operation. The view checks the caller's rights first."""

    def unknown_address(request: HttpRequest) -> HttpResponse:
        try:
            LOOKS(request)
        except Exception as error:
            return api.on_exception(request, error)
        return no_such_address(request)

    return csrf_exempt(login_not_required(unknown_address))


class _Api(NinjaAPI):
    def get_content_type(self) -> str:
        return "application/json"

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """Keep the refused value in the error. Ninja would remove the value."""
        return ValidationError(
            [
                {
                    **error,
                    "source": context.model.__ninja_param_source__,
                    "takes": _members(context.model),
                }
                for context in error_contexts
                for error in context.pydantic_validation_error.errors(include_url=False)
            ]
        )


class _Parser(Parser):
    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        body = json.loads(request.body)
        if not isinstance(body, dict):
            raise ValueError("it is not an object")
        return body

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        lists = {
            name: [value for value in data.getlist(name) if value] for name in list_fields if name in data
        }
        return {name: value for name, value in data.items() if value} | lists


def _invalid(request: HttpRequest, invalid: ValidationError) -> HttpResponse:
    error = invalid.errors[0]
    if error["source"] == "path":
        return no_such_address(request)
    code, status = ("BadQuery", 400) if error["source"] == "query" else ("InvalidParameters", 422)
    return Problem(status, code, _in_words(error)).response()


def _in_words(error: dict[str, Any]) -> str:
    name = error["loc"][-1]
    if error["type"] == "extra_forbidden":
        return f"unknown member {name!r}; this takes {error['takes'] or 'no body'}"
    if error["type"] == "missing":
        return f"{name} is missing"
    given = repr(error["input"])
    given = given if len(given) <= _LONGEST_SHOWN else f"{given[: _LONGEST_SHOWN - 1]}…"
    if error["type"] in ("literal_error", "enum"):
        return f"{name} is {given}: use {error['ctx']['expected'].replace(chr(39), '')}"
    return f"{name} is {given}: {error['msg']}"


def _members(body: type[BaseModel]) -> str:
    objects = (field.annotation for field in body.model_fields.values())
    return ", ".join(name for each in objects for name in getattr(each, "model_fields", ()))


def _not_json(request: HttpRequest, error: HttpError) -> HttpResponse:
    """In this API, ninja raises HttpError only for a body that the parser refused."""
    return Problem(400, "NotJson", f"the body is not a JSON object: {error.__cause__}").response()


def _too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return Problem(413, "TooLarge", "the request body is too large").response()


def _database_failed(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.error("a database error ended a request: %s %s", request.method, request.path, exc_info=error)
    return database_problem(error).response()


def _answered(view: View) -> View:
    def answered(request: HttpRequest, **names: Any) -> HttpResponseBase:
        answer = view(request, **names)
        if answer.status_code != 405:
            return answer
        methods = sorted(answer["Allow"].split(", "))
        allowed = {"Allow": ", ".join(methods)}
        return Problem(
            405, "MethodNotAllowed", f"use {' or '.join(methods)} here", headers=allowed
        ).response()

    return csrf_exempt(login_not_required(update_wrapper(answered, view)))
