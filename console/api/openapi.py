"""The OpenAPI 3.1 description of `/api/v1`."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from console.addresses import api_url
from console.api.answers import ProblemDocument

__all__ = ["document_of", "openapi"]


@require_safe
@login_not_required
def openapi(request: HttpRequest, api: NinjaAPI) -> HttpResponse:
    """Return the OpenAPI document. No login is needed, because the document contains no secret."""
    return JsonResponse(document_of(api) | {"servers": [{"url": api_url()}]})


@cache
def document_of(api: NinjaAPI) -> dict[str, Any]:
    """Return ninja's OpenAPI document with the authentication schemes and the schema of errors."""
    document: dict[str, Any] = dict(api.get_openapi_schema(path_prefix=""))
    for operations in document["paths"].values():
        operations.pop("head", None)  # HEAD has the same operation id as GET, but ids must be unique
        for operation in operations.values():
            operation["summary"], _, operation["description"] = operation["description"].partition("\n\n")
            operation["responses"]["default"] = {"$ref": "#/components/responses/Problem"}
    problem = ProblemDocument.model_json_schema()
    document["components"] |= {
        "securitySchemes": {
            "basic": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
            "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRFToken"},
        },
        "responses": {
            "Problem": {
                "description": "What went wrong.",
                "content": {"application/problem+json": {"schema": problem}},
            }
        },
    }
    return document | {"security": [{"basic": []}, {"token": []}, {"session": [], "csrf": []}]}
