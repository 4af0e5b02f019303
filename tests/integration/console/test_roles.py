"""Every address is requested with every role. Addresses that a viewer may not use are listed in NEEDS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker.acts import requests as acts
from broker.models import Act, AlertRule, InsightHour, Subscription, SubscriptionState
from broker.models.pipeline import PipelineRun, PipelineSchedule
from console.access import Role, rights_of
from console.models import Grant
from tests.integration.console.conftest import person
from tests.integration.console.fake_acts import FakeActs
from tests.integration.console.furnished import furnish_everything, put_message
from tests.integration.console.messages import write_log
from tests.integration.console.pages import text_of
from tests.integration.console.shop import ORDERS, Shop, make_topic
from tests.integration.console.test_hostile_input import API, GOOD, ROUTES, filled
from vela.wire.entry import encode_single

HOME = "public/default"
MELONS = "persistent://garden/fruit/melons"
TOPIC = f"{API}/topics/<domain>/<name:tenant>/<name:namespace>/<name:local_name>"

OPEN = {
    "/login",
    "/login/oidc",
    "/login/oidc/callback",
    "/login/code",
    "/login/second-factor",
    "/logout",
    "/theme",
    "/language",
    "/healthz",
    "/readyz",
    "/help",
    "/help/<path:page>",
    f"{API}/openapi.json",
}
"""These show no data, to anybody."""

NEEDS = {
    "/t/<topic:topic>/m/<name:spot>/raw": Role.READER,
    f"{TOPIC}/messages": Role.READER,
    f"{TOPIC}/messages/<name:spot>": Role.READER,
    f"{TOPIC}/examine": Role.READER,
    f"{TOPIC}/subscriptions/<name:subscription>/peek": Role.READER,
    f"{TOPIC}/subscriptions/<name:subscription>/backlog": Role.READER,
    "/topics/new": Role.OPERATOR,
    "/t/<topic:topic>/act/<name:act>": Role.OPERATOR,
    "/t/<topic:topic>/choose/<name:kind>": Role.OPERATOR,
    "/t/<topic:topic>/policies": Role.OPERATOR,
    "/t/<topic:topic>/m/<name:spot>/again": Role.OPERATOR,
    "/t/<topic:topic>/s/<name:name>/act/<name:kind>": Role.OPERATOR,
    "/pipeline/jobs/<name:job>": Role.OPERATOR,
    "/pipeline/runs/<int:run_id>/<name:verb>": Role.OPERATOR,
    "/pipeline/schedules/<int:schedule_id>/delete": Role.OPERATOR,
    "/namespaces/new": Role.ADMIN,
    "/n/<name:tenant>/<name:namespace>/delete": Role.ADMIN,
    "/n/<name:tenant>/<name:namespace>/policies": Role.ADMIN,
    "/acts/<int:act_id>/apply": Role.OPERATOR,
    "/acts/<int:act_id>/refuse": Role.OPERATOR,
    "/acts/<int:act_id>/undo": Role.OPERATOR,
    "/alerts/new": Role.OPERATOR,
    "/alerts/<int:rule_id>": Role.OPERATOR,
    "/alerts/<int:rule_id>/<name:verb>": Role.OPERATOR,
    f"{API}/alerts/rules/<int:rule_id>/silence": Role.OPERATOR,
    f"{API}/alerts/rules/<int:rule_id>/test": Role.OPERATOR,
    f"{API}/acts/<int:act_id>/apply": Role.OPERATOR,
    f"{API}/acts/<int:act_id>/refuse": Role.OPERATOR,
    f"{API}/acts/<int:act_id>/undo": Role.OPERATOR,
}
"""Every other address requires the role viewer."""

BODIES = {f"{API}/alerts/rules/<int:rule_id>/silence": {"for_ms": "1h"}}
"""What a request must contain before its rights are checked."""

USERS = {
    "/users",
    "/users/new",
    "/users/u/<name:name>",
    "/users/u/<name:name>/password",
    "/users/u/<name:name>/role",
    "/users/u/<name:name>/active",
    "/users/u/<name:name>/second-factor",
}
OF_EVERYTHING = {f"{API}/history", "/tokens", "/tokens/revoke", *USERS}
"""Users, clients' tokens, and sums that are stored for all topics together. No role on one namespace opens these."""

OF_ONESELF = {
    "/account",
    "/account/password",
    "/account/time-zone",
    "/account/second-factor",
    "/account/second-factor/remove",
    "/account/second-factor/codes",
}
"""These are for everybody who has logged in."""

GUARDED = [route for route in ROUTES if route not in OPEN | OF_ONESELF and "no-such-address" not in route]
SECRETS = ("orders", "billing", "clerk", HOME)


@pytest.fixture
def walked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeActs]:
    """A shop with a pipeline run, a schedule, and an applied act in its log; every act can be planned."""
    job = {"job": "export", "subject": ORDERS, "topic_name": ORDERS, "options": {"to": "x"}, "who": "clerk"}
    PipelineRun.objects.create(id=1, state="running", **job)
    PipelineSchedule.objects.create(id=1, every_minutes=5, next_at="2026-01-01T00:00:00Z", **job)
    Act.objects.create(
        kind="clear",
        state="applied",
        topic=shop.topic,
        subscription=shop.billing,
        topic_name=shop.topic.name,
        subscription_name="billing",
        who="ada",
        origin="console",
        requested_at="2026-01-01T00:00:00Z",
    )
    AlertRule.objects.create(
        pk=1, name="r", measure="stuck", for_ms=1, namespaces=HOME, severity="notice", who="ada"
    )
    fake = FakeActs()
    fake.plan("clear", topic=ORDERS, subscription="billing", parameters={}, who="ada", origin="console")
    for name in ("plan", "apply", "refuse", "plan_undo", "get"):
        monkeypatch.setattr(acts, name, getattr(fake, name))
    return iter([fake])


def asked(route: str, who: Client, shop: Shop) -> tuple[int, str]:
    """Request a route with names that exist, and return the status and the text of the answer."""
    address = filled(route, {**GOOD, "spot": f"{shop.sealed.pk}:0"})
    answer = who.get(address)
    page = answer.get("Location", "/")
    leads_to_form = page != "/" and address.startswith(page)  # this address accepts the form on that page
    if answer.status_code == 405 or leads_to_form:
        body = BODIES.get(route) if "/api/" in route else {}
        answer = who.post(address, body, content_type="application/json")
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
    return answer.status_code, content.decode(errors="replace").replace(address, "")


def has_id(route: str) -> bool:
    return "<int:" in route


def names_a_place(route: str) -> bool:
    return "<topic:topic>" in route or "<name:namespace>" in route or has_id(route)


def test_every_address_of_the_lists_exists() -> None:
    assert set(NEEDS) | OPEN | OF_EVERYTHING | OF_ONESELF <= set(ROUTES)


@pytest.mark.parametrize("route", GUARDED)
def test_without_a_login_or_a_role_nothing_is_shown(
    route: str, anonymous: Client, outsider: Client, walked: object, shop: Shop
) -> None:
    assert asked(route, anonymous, shop)[0] == (401 if route.startswith(API) else 302)
    status, text = asked(route, outsider, shop)
    assert status == (404 if names_a_place(route) and not has_id(route) else 403)
    assert "clerk" not in text


@pytest.mark.parametrize("route", sorted(OF_ONESELF))
def test_every_logged_in_user_has_an_account_page_and_no_one_else(
    route: str, anonymous: Client, outsider: Client, shop: Shop
) -> None:
    assert asked(route, anonymous, shop)[0] == 302
    assert asked(route, outsider, shop)[0] in (200, 422)


@pytest.mark.parametrize("route", GUARDED)
def test_the_admin_of_another_tenant_sees_nothing_of_this_one(route: str, walked: object, shop: Shop) -> None:
    stranger = person("greta", {"garden/*": Role.ADMIN, "public/else": Role.ADMIN})
    status, text = asked(route, stranger, shop)
    if names_a_place(route):
        assert status == 404
        assert "clerk" not in text
    else:
        assert status in ((403,) if route in OF_EVERYTHING else (200, 400, 415, 422))
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("route", GUARDED)
def test_each_role_opens_the_addresses_that_it_should(route: str, walked: object, shop: Shop) -> None:
    for role in Role:  # in one test, because the shop takes longer to open than a page
        status, _ = asked(route, person(role.word, {HOME: role}), shop)
        if route in OF_EVERYTHING or role < NEEDS.get(route, Role.VIEWER):
            assert status == 403, f"{route} does not refuse a {role.word}"
        else:
            assert status not in (401, 403), f"{route} refuses a {role.word}: add it to NEEDS if it should"
            assert status < 500, role.word


@pytest.mark.parametrize("role", Role)
def test_payloads_keys_and_properties_are_for_readers(role: Role, shop: Shop) -> None:
    pia = person("pia", {HOME: role})
    topic = f"/t/persistent/{HOME}/orders"
    for address in (
        f"{topic}/messages",
        f"{topic}/messages/export?format=csv",
        f"{topic}/messages/follow",
        f"{topic}/messages/compare?a={shop.sealed.pk}:5&b={shop.sealed.pk}:6",
        f"{topic}/m/{shop.sealed.pk}:5",
        f"{topic}/s/billing",
    ):
        answer = pia.get(address)
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        text = content.decode().replace('class="note"', "")
        shows = any(secret in text for secret in ("customer-", "&quot;note&quot;", '"note"'))
        assert shows is (role >= Role.READER), address


HIDDEN = "fig-of-the-secret-garden"
CONTENTS = ("message", "messages", "messages_compare", "dead_letter_topic", "run", "topic")
"""Pages that show what messages contain."""


def test_no_address_shows_a_viewer_what_messages_contain(shop: Shop) -> None:
    """Bodies, keys and properties could appear in a log, in a letter, and in the samples and insights of a job."""
    pages = furnish_everything(shop, "plain")
    put_message(shop, HIDDEN, producer="p")
    letter = encode_single(
        producer_name="p",
        sequence_id=1,
        publish_time_ms=shop.now_ms,
        payload=HIDDEN.encode(),
        key=HIDDEN,
        properties={"exception": HIDDEN, HIDDEN: HIDDEN},
    )
    letters = write_log(f"{ORDERS}-figs-DLQ", [letter, letter], begin_ms=shop.now_ms).topic.name
    sample = {"id": "1:2", "batch_index": -1, "key": HIDDEN, "text": HIDDEN, "size_bytes": 300}
    PipelineRun.objects.update(result={"words": "one", "messages": 1, "samples": [sample]})
    InsightHour.objects.update(top_keys=[{"key": HIDDEN, "messages": 3, "bytes": 9}])
    run = PipelineRun.objects.get().pk
    names = {**GOOD, "spot": f"{shop.sealed.pk}:6", "run_id": str(run)}
    parts = ("", "?part=next", "?part=letters", "?part=rows", "?part=insights&tab=insights")
    addresses = {
        *(address for several in pages.values() for address in several),
        *(f"/t/persistent/{HOME}/orders/s/billing{part}" for part in parts),
        f"/dlq/{letters.replace('://', '/')}",
        f"/t/persistent/{HOME}/orders/messages/export?format=ndjson",
        f"/t/persistent/{HOME}/orders/messages/export?format=csv",
        *(filled(route, names) for route in ROUTES if route.startswith((API, "/t/", "/pipeline/runs"))),
    }
    viewer, reader = (person(role.word, {HOME: role}) for role in (Role.VIEWER, Role.READER))
    for address in sorted(addresses):
        assert HIDDEN not in text_at(viewer, address), address
    shown = {address for address in addresses if HIDDEN in text_at(reader, address)}
    for name in CONTENTS:
        assert shown.intersection(pages[name]) or name == "dead_letter_topic", name
    assert f"/dlq/{letters.replace('://', '/')}" in shown
    assert [address for address in shown if address.startswith(f"{API}/topics")]


def text_at(who: Client, address: str) -> str:
    """Return the body of the answer to a GET."""
    answer = who.get(address)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
    return content.decode(errors="replace")


def test_rights_of_one_namespace_are_not_rights_of_another(walked: Iterator[FakeActs], shop: Shop) -> None:
    melons = make_topic(MELONS, backlog=1)
    Subscription.objects.create(topic=melons, name="eaters", type="Shared")
    pia = person("pia", {"garden/*": Role.VIEWER, HOME: Role.OPERATOR})
    assert pia.get("/t/persistent/garden/fruit/melons").status_code == 200
    body = {"kind": "unload", "topic": MELONS}
    refused = pia.post(f"{API}/acts", body, content_type="application/json")
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "You need the operator role for garden/fruit.",
    )
    hidden = pia.post(f"{API}/acts", {**body, "topic": "secret/place/t"}, content_type="application/json")
    assert (hidden.status_code, hidden.json()["code"]) == (404, "NothingToActOn")
    assert (
        pia.post(f"{API}/acts", {**body, "topic": ORDERS}, content_type="application/json").status_code == 201
    )
    assert [what for what, _ in next(walked).asked] == ["plan", "plan"]


@pytest.mark.parametrize("kind", ["set_namespace_policies", "delete_topic"])
def test_some_acts_are_for_admins(kind: str, walked: object, shop: Shop) -> None:
    topic = HOME if kind == "set_namespace_policies" else ORDERS
    body = {"kind": kind, "topic": topic, "parameters": {"set": {}}}
    for role, status in ((Role.OPERATOR, 403), (Role.ADMIN, 201)):
        pia = person(f"pia {role}", {HOME: role})
        answer = pia.post(f"{API}/acts", body, content_type="application/json")
        assert answer.status_code == status, answer.content


def test_lists_and_sums_count_only_what_their_reader_may_see(
    shop: Shop, walked: object, looker: Client
) -> None:
    melons = make_topic(MELONS, backlog=7, rate=2.0, state=SubscriptionState.STUCK)
    greta = person("greta", {"garden/*": Role.VIEWER})
    for order in ("name", "worst", "backlog", "rate", "last"):
        found = greta.get(f"{API}/topics?sort={order}").json()["topics"]
        assert [row["name"] for row in found] == [MELONS], order
        assert len(looker.get(f"{API}/topics?sort={order}").json()["topics"]) == 2, order
    assert greta.get(f"{API}/stats").json()["topics"] == 1
    assert looker.get(f"{API}/stats").json()["topics"] == 2
    assert greta.get(f"{API}/stats").json()["message_rate_in"] == 2.0
    assert greta.get(f"{API}/stats").json()["consumers"] == 0
    assert "fruit" in text_of(greta.get("/topics"))
    assert greta.get(f"{API}/acts").json()["acts"] == []
    Act.objects.create(
        kind="unload",
        state="applied",
        topic_name=melons.name,
        who="eve",
        origin="x",
        requested_at="2026-01-01T00:00Z",
    )
    Act.objects.create(
        kind="set_namespace_policies",
        state="applied",
        topic_name="garden/gone",
        who="eve",
        origin="x",
        requested_at="2026-01-01T00:00Z",
    )
    assert len(greta.get(f"{API}/acts").json()["acts"]) == 2
    assert len(person("gus", {"garden/gone": Role.VIEWER}).get(f"{API}/acts").json()["acts"]) == 1


def test_the_overview_counts_only_what_its_reader_may_see(shop: Shop) -> None:
    pia, greta = person("pia", {HOME: Role.VIEWER}), person("greta", {"garden/*": Role.VIEWER})
    assert "billing" in text_of(pia.get("/"))
    assert "has not reported a subscription" in text_of(greta.get("/"))


def test_rights_cost_one_query_whatever_is_granted(shop: Shop) -> None:
    pia = User.objects.create_user("pia")
    for number in range(20):
        Grant.objects.create(user=pia, pattern=f"public/n{number}", role=Role.VIEWER)
    with CaptureQueriesContext(connection) as queries:
        rights = rights_of(pia)
        assert not rights.scope.namespace_ids
        assert not rights.may_see(ORDERS)
    assert len(queries) == 1
    with CaptureQueriesContext(connection) as queries:
        assert rights_of(User.objects.create_superuser("root")).is_admin()
    assert len([each for each in queries if "vela_" in each["sql"]]) == 0
