"""A project may put `/api/v1` below a prefix, and may have an /api/ of its own."""

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import include, path
from django.utils import translation

from console.middleware import ReadableRequests
from console.people.preferences import OwnPreferences

urlpatterns = [
    path("vela/api/v1/", include("console.api.urls")),
    path("vela/", include("console.urls")),
]

pytestmark = pytest.mark.urls(__name__)


@pytest.mark.parametrize(
    ("address", "content_type"),
    [
        ("/vela/api/v1/topics", "application/problem+json"),
        ("/vela/topics", "text/html; charset=utf-8"),
        ("/api/orders", "text/html; charset=utf-8"),
    ],
)
def test_only_velas_api_answers_a_foreign_host_with_json(address: str, content_type: str) -> None:
    request = RequestFactory().get(address, headers={"host": "foreign.example"})
    answer = ReadableRequests(lambda _: HttpResponse())(request)
    assert isinstance(answer, HttpResponse)
    assert (answer.status_code, answer["Content-Type"]) == (400, content_type)


def test_the_description_names_the_address_of_the_api() -> None:
    (server,) = Client().get("/vela/api/v1/openapi.json").json()["servers"]
    assert server == {"url": "/vela/api/v1"}


@pytest.mark.parametrize(
    ("address", "language"), [("/vela/api/v1/topics", b"en"), ("/api/orders", b"zh-hans")]
)
def test_only_velas_api_is_in_english_for_everybody(address: str, language: bytes) -> None:
    with translation.override("zh-hans"):
        answer = OwnPreferences(lambda _: HttpResponse(translation.get_language()))(
            RequestFactory().get(address)
        )
    assert isinstance(answer, HttpResponse)
    assert answer.content == language
