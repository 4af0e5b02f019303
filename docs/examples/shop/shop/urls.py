"""The shop's addresses; Vela's console is one of them."""

from django.urls import include, path

urlpatterns = [path("vela/", include("console.urls"))]
