"""Django's settings, from the environment (docs/reference/settings.md). Importing this starts and writes nothing."""

from __future__ import annotations

import logging
import secrets
import sys
from datetime import timedelta
from typing import Any

from config.environment import (
    PROJECT_DIR,
    ProjectSettings,
    database_options,
    database_parts,
    email_parts,
    libpq_option,
    project_settings,
)
from config.log_lines import logging_config
from console.people.languages import LANGUAGE_NAMES

_vela = project_settings()

BASE_DIR = PROJECT_DIR
DATA_DIR = _vela.data_dir


def _secret_key(vela: ProjectSettings) -> str:
    """Return VELA_SECRET_KEY, or the key that `make run` keeps in the data folder, or a new key for this process."""
    try:
        kept = (vela.data_dir / "secret-key").read_text(encoding="ascii").strip()
    except OSError:
        kept = secrets.token_urlsafe(48)
    return vela.secret_key or kept


def _allowed_hosts(vela: ProjectSettings) -> list[str]:
    bind = vela.bind
    everywhere_or_listed = ("0.0.0.0", "::", "127.0.0.1")  # noqa: S104 - compared, not bound
    own = [] if bind in everywhere_or_listed else [f"[{bind}]" if ":" in bind else bind]
    return ["localhost", "127.0.0.1", "[::1]", *own, *sorted(vela.allowed_hosts)]


def _options_of_pages(vela: ProjectSettings) -> str:
    """Return the libpq options of the connections that pages use: those in DATABASE_URL, and Vela's own.

    These connections are read-only. No page may keep the database busy for long, or use a second core: parallel workers
    make a page slower if the broker keeps the other cores busy.
    """
    own = "-c default_transaction_read_only=on -c statement_timeout=5000 -c max_parallel_workers_per_gather=0"
    role = f"-c role={libpq_option(vela.read_role)}" if vela.read_role else ""
    return " ".join(filter(None, (database_options(vela.database_address).get("options"), own, role)))


SECRET_KEY = _secret_key(_vela)
DEBUG = _vela.debug
ALLOWED_HOSTS = _allowed_hosts(_vela)

# Daphne's app adds nothing but its runserver, and it imports Twisted, which adds 0.8 s to the start of every process.
# Where it is needed, it is the first app, so that its command replaces Django's.
_RUNSERVER = ["daphne"] if "runserver" in sys.argv[1:2] else []
INSTALLED_APPS = [
    *_RUNSERVER,
    "channels",
    "broker",
    "console",
    "django.contrib.admin.apps.SimpleAdminConfig",  # config.urls looks for admin modules: only the console needs them
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.middleware.ContentSecurityPolicy",
    "console.middleware.ReadableRequests",
    "console.middleware.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.middleware.LoginRequired",
    "console.people.preferences.OwnPreferences",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",  # answers a login that is refused because of earlier failures
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_DATABASE_URL = _vela.database_address
# The console and the broker's metrics watch the disk of the embedded server. None: the database is elsewhere.
EMBEDDED_DATABASE_DIR = _vela.embedded_database_dir
# A page that opens a new connection spends most of its time on that (docs/decisions/0026-a-pool-of-connections.md).
_POOL = {
    "min_size": 0,
    "max_size": 8,
    "timeout": 5.0,  # seconds that a page waits for a connection
    "max_idle": 60.0,
    "reconnect_timeout": 1.0,  # the pool gives up after this time, and the next page tries again
}
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **database_parts(_DATABASE_URL),
        "OPTIONS": {
            "connect_timeout": 5,
            "application_name": "vela django",
            **database_options(_DATABASE_URL),
            "pool": _POOL,
        },
        "CONN_HEALTH_CHECKS": True,  # the pool gives out no connection that a restart of PostgreSQL has closed
    },
}
DATABASES["read"] = {
    **DATABASES["default"],
    "OPTIONS": {
        **DATABASES["default"]["OPTIONS"],
        "application_name": "vela pages",
        "options": _options_of_pages(_vela),
    },
    "TEST": {"MIRROR": "default"},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The layer is in the memory of one process: it carries refreshes of pages, never messages.
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "console.people.passwords.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# Failed logins are counted by name and address together, and by address alone with the higher limit of
# console.login_brake.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "console.people.logins.Users",
]
AXES_HANDLER = "console.login_brake.FailureCounts"
AXES_LOCKOUT_CALLABLE = "console.login_brake.refused"
AXES_CLIENT_IP_CALLABLE = "console.origin.client_address"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address"]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
# A login attempt during the block neither extends the block nor writes a row.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
# masked in django-axes' records of failures, like the field "password"
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "code", "old", "new", "again"]
VELA_PROXY_COUNT = _vela.proxy_count

_MAIL = email_parts(_vela.smtp_url)
EMAIL_HOST = _MAIL.get("EMAIL_HOST", "localhost")
EMAIL_PORT = _MAIL.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _MAIL.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = _MAIL.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = _MAIL.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = _MAIL.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 10  # seconds; the worker has other tasks to run
DEFAULT_FROM_EMAIL = _vela.mail_from

LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"

LANGUAGE_CODE = "en"
LANGUAGES = list(LANGUAGE_NAMES.items())
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600  # seconds
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_HTTPONLY = True
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [folder for folder in [BASE_DIR / "static"] if folder.is_dir()]
# The build of an image runs collectstatic, which writes the manifest. A checkout serves the files from static/.
_COLLECTED = (STATIC_ROOT / "staticfiles.json").is_file() or "collectstatic" in sys.argv[1:2]
_STATIC_STORAGE = (
    "whitenoise.storage.CompressedManifestStaticFilesStorage"
    if _COLLECTED
    else "django.contrib.staticfiles.storage.StaticFilesStorage"
)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": _STATIC_STORAGE},
}
WHITENOISE_USE_FINDERS = not _COLLECTED
WHITENOISE_AUTOREFRESH = not _COLLECTED  # if False, WhiteNoise warns at every start of a checkout

# One switch turns on everything that only works over TLS. By default pages are plain HTTP on the loopback address,
# where a secure cookie would lock the operator out. VELA_HTTPS=1 says that a proxy in front ends TLS and sets
# X-Forwarded-Proto.
HTTPS = _vela.https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # probes come straight to the process, without the proxy
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
# A browser sends secure cookies over TLS only, so a console that also listens without TLS cannot use them.
SESSION_COOKIE_SECURE = HTTPS or _vela.console_port is None
CSRF_COOKIE_SECURE = HTTPS or _vela.console_port is None
LANGUAGE_COOKIE_SECURE = HTTPS or _vela.console_port is None
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = False
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "console.views.errors.not_trusted"
CSRF_TRUSTED_ORIGINS = list(_vela.csrf_trusted_origins)
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains and preloading would bind hosts that do not belong to Vela
    "security.W021",
] + ([] if HTTPS else ["security.W004", "security.W008", "security.W012", "security.W016"])


logging.captureWarnings(capture=True)  # so that warnings of libraries are in the log too
LOGGING = logging_config(level=_vela.log_level, log_format=_vela.log_format)
