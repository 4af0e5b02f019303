"""The URLs of the console."""

from django.contrib import admin
from django.contrib.auth.models import User
from django.urls import include, path

from broker.conf import broker_settings
from console import health
from console.access.user_admin import KeepingUserAdmin
from console.people.admin_login import PasswordAloneForm
from console.views import errors

admin.autodiscover()
admin.site.login_form = PasswordAloneForm
admin.site.unregister(User)
admin.site.register(User, KeepingUserAdmin)
_is_read_only = broker_settings().console_read_only

handler400 = errors.bad_request
handler403 = errors.not_allowed
handler404 = errors.not_found
handler500 = errors.failed

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    *([] if _is_read_only else [path("django-admin/", admin.site.urls)]),  # the admin site changes rows
    path("api/v1/", include("console.api.urls")),
    path("", include("console.urls")),
]
