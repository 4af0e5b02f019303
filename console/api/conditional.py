"""ETags for answers that programs poll."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers

__all__ = ["with_etag"]

Run = Callable[..., HttpResponseBase]


def with_etag(run: Run) -> Run:
    """Add an ETag to successful answers. If a request sends the current ETag in If-None-Match, answer 304."""

    @wraps(run)
    def conditional(request: HttpRequest, **names: Any) -> HttpResponseBase:
        response = run(request, **names)
        if not isinstance(response, HttpResponse) or response.status_code != 200:
            return response
        etag = f'"{hashlib.sha256(response.content).hexdigest()[:20]}"'
        response["ETag"] = etag
        response["Cache-Control"] = "private, no-cache"
        patch_vary_headers(response, ["Cookie", "Authorization"])
        return get_conditional_response(request, etag=etag, response=response) or response

    return conditional
