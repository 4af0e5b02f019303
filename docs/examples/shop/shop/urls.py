"""The shop's addresses, with Vela's console below one of them."""

from django.urls import include, path

urlpatterns = [path("vela/", include("console.urls"))]
