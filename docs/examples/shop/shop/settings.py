"""The shop's settings. A comment marks the lines that Vela needs."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from console.paths import STATIC_DIR, TEMPLATES_DIR  # Vela

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only for trying it out, long enough for Django to like it")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]

INSTALLED_APPS = [
    "broker",  # Vela: tables, runbroker, runhandlers, publish
    "console",  # Vela: the operator's pages
    "orders",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.middleware.ReadableRequests",  # Vela: refuses what PostgreSQL cannot store
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",  # Vela: pages in the language of the browser
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",  # Vela: its pages rely on it
    "console.people.preferences.OwnPreferences",  # Vela: times and words as each user wants them
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "shop.urls"
LOGIN_URL = "console:login"  # Vela
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TEMPLATES_DIR],  # Vela
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
STATICFILES_DIRS = [STATIC_DIR]  # Vela

_url = urlsplit(os.environ.get("DATABASE_URL", "postgresql://shop@127.0.0.1:5432/shop"))
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.lstrip("/"),
        "HOST": _url.hostname,
        "PORT": _url.port,
        "USER": unquote(_url.username or ""),
        "PASSWORD": unquote(_url.password or ""),
    }
}
DATABASES["read"] = {  # Vela: its pages read on this connection, which cannot write and ends slow queries
    **DATABASES["default"],
    "OPTIONS": {"options": "-c default_transaction_read_only=on -c statement_timeout=5000"},
    "TEST": {"MIRROR": "default"},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
