"""The console's addresses. addresses.py says how topic and subscription names appear in them."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

import console.addresses  # noqa: F401 - registers how names are written in addresses
from console.views.act import act, apply, undo
from console.views.act_form import act_form
from console.views.acts import acts
from console.views.login import Login
from console.views.message import message, raw_message
from console.views.messages import export_messages, messages
from console.views.overview import overview
from console.views.subscription import subscription
from console.views.theme import theme
from console.views.topic import topic
from console.views.topics import topics
from console.views.troubles import troubles

app_name = "console"

urlpatterns = [
    path("", overview, name="home"),
    path("login", Login.as_view(), name="login"),
    path("logout", LogoutView.as_view(next_page="console:login"), name="logout"),
    path("theme", theme, name="theme"),
    path("topics", topics, name="topics"),
    path("troubles", troubles, name="troubles"),
    path("t/<topic:topic>", topic, name="topic"),
    path("t/<topic:topic>/messages", messages, name="messages"),
    path("t/<topic:topic>/messages/export", export_messages, name="messages_export"),
    path("t/<topic:topic>/m/<name:spot>", message, name="message"),
    path("t/<topic:topic>/m/<name:spot>/raw", raw_message, name="message_raw"),
    path("t/<topic:topic>/s/<name:name>", subscription, name="subscription"),
    path("t/<topic:topic>/s/<name:name>/act/<name:kind>", act_form, name="act_form"),
    path("acts", acts, name="acts"),
    path("acts/<int:act_id>", act, name="act"),
    path("acts/<int:act_id>/apply", apply, name="act_apply"),
    path("acts/<int:act_id>/undo", undo, name="act_undo"),
]
