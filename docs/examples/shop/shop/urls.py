"""The shop's addresses, with Vela's console below one of them."""

from django.urls import include, path

urlpatterns = [
    path("vela/api/v1/", include("console.api.urls")),  # the command `vela`; the pages link to it
    path("vela/", include("console.urls")),
]
