"""The console's URL patterns."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import path

import console.addresses  # noqa: F401 - registers the converters for names
from console.help.view import help_page
from console.views.acts.act import act, apply, refuse, undo
from console.views.acts.export import acts_export
from console.views.acts.form import act_form
from console.views.acts.log import acts
from console.views.alerts.pages import alerts
from console.views.alerts.rule import act_on_rule, change_rule, new_rule
from console.views.clients.consumers import consumers
from console.views.clients.producers import producers
from console.views.clients.tokens import revoke_token, tokens
from console.views.dead_letters.every_topic import dead_letters
from console.views.dead_letters.one_topic import dead_letter_topic
from console.views.login.code import login_code
from console.views.login.oidc import begin_oidc, end_oidc
from console.views.login.password import Login
from console.views.login.set_up import login_second_factor
from console.views.message import message, raw_message
from console.views.messages.browse import messages
from console.views.messages.compare import compare_messages
from console.views.messages.export import export_messages
from console.views.messages.follow import follow_messages
from console.views.namespaces.create import new_namespace
from console.views.namespaces.namespace import delete_namespace, namespace
from console.views.namespaces.namespaces import namespaces
from console.views.namespaces.policies import namespace_policies, topic_policies
from console.views.overview import overview
from console.views.past import subscription_past, topic_past
from console.views.people.account import account, set_own_password, set_own_zone
from console.views.people.change import (
    remove_user_factor,
    set_user_active,
    set_user_password,
    set_user_role,
)
from console.views.people.create import new_user
from console.views.people.language import language
from console.views.people.own_second_factor import (
    own_second_factor,
    remove_own_second_factor,
    renew_own_recovery_codes,
)
from console.views.people.show import user, users
from console.views.pipeline.pages import act_on_run, job_form, pipeline, run, unschedule
from console.views.saved_views.change import change_view
from console.views.saved_views.show import saved_views
from console.views.subscription import subscription
from console.views.theme import theme
from console.views.topic import topic
from console.views.topic_acts.again import publish_again
from console.views.topic_acts.bookmarks import all_bookmarks
from console.views.topic_acts.choose import choose
from console.views.topic_acts.create import create_topic
from console.views.topic_acts.describe import topic_act
from console.views.topics import topics
from console.views.troubles import troubles

app_name = "console"

urlpatterns = [
    path("", overview, name="home"),
    path("login", Login.as_view(), name="login"),
    path("login/oidc", begin_oidc, name="begin_oidc"),
    path("login/oidc/callback", end_oidc, name="end_oidc"),
    path("login/code", login_code, name="login_code"),
    path("login/second-factor", login_second_factor, name="login_second_factor"),
    path("logout", login_not_required(LogoutView.as_view(next_page="console:login")), name="logout"),
    path("theme", theme, name="theme"),
    path("language", language, name="language"),
    path("help", help_page, name="help_index"),
    path("help/<path:page>", help_page, name="help"),
    path("topics", topics, name="topics"),
    path("topics/new", create_topic, name="topic_new"),
    path("dlq", dead_letters, name="dead_letters"),
    path("dlq/<topic:topic>", dead_letter_topic, name="dead_letter_topic"),
    path("consumers", consumers, name="consumers"),
    path("producers", producers, name="producers"),
    path("troubles", troubles, name="troubles"),
    path("namespaces", namespaces, name="namespaces"),
    path("namespaces/new", new_namespace, name="new_namespace"),
    path("n/<name:tenant>/<name:namespace>", namespace, name="namespace"),
    path("n/<name:tenant>/<name:namespace>/delete", delete_namespace, name="delete_namespace"),
    path("n/<name:tenant>/<name:namespace>/policies", namespace_policies, name="namespace_policies"),
    path("t/<topic:topic>", topic, name="topic"),
    path("t/<topic:topic>/past", topic_past, name="topic_past"),
    path("t/<topic:topic>/act/<name:act>", topic_act, name="topic_act"),
    path("t/<topic:topic>/policies", topic_policies, name="topic_policies"),
    path("t/<topic:topic>/choose/<name:kind>", choose, name="choose"),
    path("t/<topic:topic>/messages", messages, name="messages"),
    path("t/<topic:topic>/messages/export", export_messages, name="messages_export"),
    path("t/<topic:topic>/messages/compare", compare_messages, name="messages_compare"),
    path("t/<topic:topic>/messages/follow", follow_messages, name="messages_follow"),
    path("t/<topic:topic>/m/<name:spot>", message, name="message"),
    path("t/<topic:topic>/m/<name:spot>/raw", raw_message, name="message_raw"),
    path("t/<topic:topic>/m/<name:spot>/again", publish_again, name="message_again"),
    path("t/<topic:topic>/s/<name:name>", subscription, name="subscription"),
    path("t/<topic:topic>/s/<name:name>/past", subscription_past, name="subscription_past"),
    path("t/<topic:topic>/s/<name:name>/act/<name:kind>", act_form, name="act_form"),
    path("bookmarks", all_bookmarks, name="bookmarks"),
    path("acts", acts, name="acts"),
    path("acts/export", acts_export, name="acts_export"),
    path("acts/<int:act_id>", act, name="act"),
    path("acts/<int:act_id>/apply", apply, name="act_apply"),
    path("acts/<int:act_id>/refuse", refuse, name="act_refuse"),
    path("acts/<int:act_id>/undo", undo, name="act_undo"),
    path("views", saved_views, name="views"),
    path("views/<int:view_id>/<name:change>", change_view, name="change_view"),
    path("account", account, name="account"),
    path("account/password", set_own_password, name="set_own_password"),
    path("account/time-zone", set_own_zone, name="set_own_zone"),
    path("account/second-factor", own_second_factor, name="own_second_factor"),
    path("account/second-factor/remove", remove_own_second_factor, name="remove_own_second_factor"),
    path("account/second-factor/codes", renew_own_recovery_codes, name="renew_own_recovery_codes"),
    path("tokens", tokens, name="tokens"),
    path("tokens/revoke", revoke_token, name="revoke_token"),
    path("users", users, name="users"),
    path("users/new", new_user, name="new_user"),
    path("users/u/<name:name>", user, name="user"),
    path("users/u/<name:name>/password", set_user_password, name="set_user_password"),
    path("users/u/<name:name>/role", set_user_role, name="set_user_role"),
    path("users/u/<name:name>/active", set_user_active, name="set_user_active"),
    path("users/u/<name:name>/second-factor", remove_user_factor, name="remove_user_factor"),
    path("alerts", alerts, name="alerts"),
    path("alerts/new", new_rule, name="new_alert_rule"),
    path("alerts/<int:rule_id>", change_rule, name="alert_rule"),
    path("alerts/<int:rule_id>/<name:verb>", act_on_rule, name="act_on_alert_rule"),
    path("pipeline", pipeline, name="pipeline"),
    path("pipeline/jobs/<name:job>", job_form, name="job_form"),
    path("pipeline/runs/<int:run_id>", run, name="run"),
    path("pipeline/runs/<int:run_id>/<name:verb>", act_on_run, name="act_on_run"),
    path("pipeline/schedules/<int:schedule_id>/delete", unschedule, name="unschedule"),
]
