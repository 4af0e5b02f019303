"""The console process's addresses."""

from django.contrib import admin
from django.urls import include, path

from console import health
from console.views import errors

admin.autodiscover()

handler400 = errors.bad_request
handler403 = errors.not_allowed
handler404 = errors.not_found
handler500 = errors.failed

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("django-admin/", admin.site.urls),
    path("api/v1/", include("console.api.urls")),
    path("", include("console.urls")),
]
