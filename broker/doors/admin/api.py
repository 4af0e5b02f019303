"""The Django Ninja application behind /admin/v2, /lookup/v2 and /topics."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.utils.datastructures import MultiValueDict
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError, ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from broker.core.errors import BrokerError
from broker.doors.admin import (
    brokers,
    lookup,
    namespaces,
    partitions,
    schemas,
    subscriptions,
    tenants,
    topics,
)
from broker.doors.admin.messages import operations as messages
from broker.doors.admin.messages import publish
from broker.doors.admin.policies import document, permissions, refused
from broker.doors.admin.policies import operations as policies
from broker.doors.admin.refusals import Refused, status_of
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.statistics import operations as statistics
from broker.doors.asgi import json_reason
from broker.doors.handshake_errors import InvalidQuery
from broker.doors.query import parse_query

__all__ = ["API", "refusal"]

logger = logging.getLogger(__name__)

_TYPE: Final = re.compile(r"[A-Z]|function-")
_MOST_LISTED_ERRORS: Final = 100
_CURL_FORM: Final = "application/x-www-form-urlencoded"
_FORMS: Final = ("multipart/form-data", _CURL_FORM)
_REFUSED: Final = {
    "description": "The request was refused, or failed.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"reason": {"type": "string"}},
                "required": ["reason"],
            }
        }
    },
}


def refusal(status: int, reason: str) -> HttpResponse:
    """Return a refusal in Pulsar's format: {"reason": …}."""
    return HttpResponse(json_reason(reason), status=status, content_type="application/json")


class _Parser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        return json.loads(request.body)

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        """Like Pulsar, use the first value of each parameter. A parameter with an empty value counts as missing."""
        assert isinstance(request, AdminRequest)
        return {name: value for name, value in parse_query(request.query_string).items() if value}


class _Renderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return json.dumps(data, ensure_ascii=False).encode()


class _Api(NinjaAPI):
    def get_content_type(self) -> str:
        return "application/json"

    def get_openapi_schema(self, *args: Any, **named: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(*args, **named)
        for operations in schema["paths"].values():
            for each in operations.values():
                each["responses"]["default"] = {"$ref": "#/components/responses/Refused"}
        schema["components"]["responses"] = {"Refused": _REFUSED}
        return schema

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """Replace a long list of errors with a count, because building the list would block the event loop."""
        count = sum(each.pydantic_validation_error.error_count() for each in error_contexts)
        if count <= _MOST_LISTED_ERRORS:
            return super().validation_error_from_error_contexts(error_contexts)
        return ValidationError(
            [{"loc": ("body",), "type": "too_many", "msg": f"{count} of its values are wrong"}]
        )


def _complaint(found: Mapping[str, Any]) -> str:
    place, *names = found["loc"]
    wrong = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "too_long" and "max_length" in found.get("ctx", {}):
        wrong = f"it has too many items, the limit is {found['ctx']['max_length']}"
    elif found["type"] == "model_type":
        wrong = "an object is needed"
    is_missing = found["type"] == "missing"
    if place != "body":
        name = ".".join(str(each) for each in names)
        return f"the parameter {name} is missing" if is_missing else f"{name}: {wrong}"
    member = ".".join(str(each) for each in names[1:] if not _TYPE.match(str(each)))
    if not member:
        return "the request needs a body, in JSON" if is_missing else f"the body cannot be used: {wrong}"
    return f"the body lacks {member}" if is_missing else f"{member} in the body: {wrong}"


def _why_not_json(error: BaseException | None) -> str:
    match error:
        case json.JSONDecodeError():
            return f"the body is not JSON: {error}"
        case UnicodeDecodeError():
            return f"the body is not JSON: it is not UTF-8 at byte {error.start}"
        case RecursionError():
            return "the body cannot be used: it is nested too deeply"
        case ValueError():
            return "the body cannot be used: a number in it has too many digits"
        case _:
            return "the body is not JSON"


def _make_api() -> NinjaAPI:
    api = _Api(
        title="Vela admin REST",
        version="2",
        description="Pulsar's admin REST API version 2 and its topic lookup.",
        openapi_url=None,
        docs_url=None,
        urls_namespace="admin",
        parser=_Parser(),
        renderer=_Renderer(),
    )

    @api.exception_handler(BrokerError)
    def refused_by_broker(request: HttpRequest, error: BrokerError) -> HttpResponse:
        return refusal(status_of(error), str(error))

    @api.exception_handler(Refused)
    def refused_here(request: HttpRequest, error: Refused) -> HttpResponse:
        return refusal(error.status, error.reason)

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        # If a body may have several types, the error with the longest location is the most precise.
        return refusal(400, _complaint(max(error.errors, key=lambda each: len(each["loc"]))))

    @api.exception_handler(InvalidQuery)
    def bad_query(request: HttpRequest, error: InvalidQuery) -> HttpResponse:
        return refusal(error.status, error.reason)

    @api.exception_handler(HttpError)
    def not_json(request: HttpRequest, error: HttpError) -> HttpResponse:
        cause = error.__cause__
        # `curl -d` says of every body that it is a form.
        may_be_json = request.content_type == _CURL_FORM and getattr(cause, "pos", 1) > 0
        if request.content_type in _FORMS and not may_be_json:
            return refusal(415, f"the body is a form ({request.content_type}): send JSON instead")
        if "Content-Encoding" in request.headers:
            return refusal(415, "the body has a Content-Encoding: send JSON that is not compressed")
        return refusal(400, _why_not_json(cause))

    @api.exception_handler(RequestDataTooBig)
    def too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        return refusal(413, "the body is too large")

    @api.exception_handler(psycopg.Error)
    def no_database(request: HttpRequest, error: psycopg.Error) -> HttpResponse:
        logger.error("%s %s: the database failed", request.method, request.path, exc_info=error)
        return refusal(503, "the database did not answer or refused the request; the broker's log says why")

    @api.exception_handler(Exception)
    def failed(request: HttpRequest, error: Exception) -> HttpResponse:
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
        return refusal(500, "the request failed inside the broker; the broker's log says why")

    for each in (
        brokers,
        tenants,
        namespaces,
        permissions,
        document,
        policies,
        refused,
        topics,
        partitions,
        subscriptions,
        messages,
        publish,
        statistics,
        schemas,
        lookup,
    ):
        api.add_router("", each.router)
    return api


API = _make_api()
