"""Saved views: what is kept, who sees a view, and that a view shows its reader only what the reader may see."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker.conf import broker_settings
from broker.models import Act
from console.access import Role, rights
from console.models import SavedView
from console.saved_views import keeping
from console.saved_views.lists import list_at
from tests.integration.console.conftest import person
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, make_topic

HOME = "public/default"
ORDERS = f"/t/persistent/{HOME}/orders"
LISTS = {
    "/topics": "backlog=1&ns=public%2Fdefault",
    "/consumers": "flag=blocked&sub=bill",
    "/producers": "version=Pulsar-CPP",
    "/dlq": "q=ord",
    f"/dlq{ORDERS.removeprefix('/t')}": "by=reason",
    f"{ORDERS}/messages": "key=customer-1&start=oldest",
    "/acts": "kind=reset&state=applied",
}


def save(client: Client, path: str, query: str, name: str = "mine", **more: str) -> Any:
    return client.post("/views", {"path": path, "query": query, "name": name, **more})


def chips(client: Client, path: str, query: str = "view=all") -> list[tuple[str, str, bool]]:
    """Return each chip above a list: its name, its address, and whether it is the current one."""
    page = client.get(f"{path}?{query}").content.decode()
    found = re.findall(
        r'<a class="chip"\s+href="([^"]*)"\s*(aria-current="page")?>(.*?)</a>', page, re.DOTALL
    )
    return [
        (re.sub(r"<[^>]+>", "", name).strip(), html.unescape(address), bool(on))
        for address, on, name in found
    ]


@pytest.mark.parametrize("path", LISTS)
def test_every_list_can_be_saved_and_opened_again(path: str, operator: Client, shop: Shop) -> None:
    form = operator.get(f"{path}?{LISTS[path]}").content.decode()
    given = dict(re.findall(r'<input type="hidden" name="(path|query)" value="([^"]*)">', form))
    saved = save(operator, html.unescape(given["path"]), html.unescape(given["query"]), "of today")
    assert (saved.status_code, saved["Location"]) == (302, f"{path}?{LISTS[path]}")
    assert chips(operator, path, LISTS[path]) == [
        ("All", f"{path}?view=all", False),
        ("of today", f"{path}?{LISTS[path]}", True),
    ]
    assert chips(operator, path)[0][2]
    assert "of today" in text_of(operator.get("/views"))


@pytest.mark.parametrize(
    ("path", "query", "kept"),
    [
        ("/topics", "sort=backlog&q=&after=x&value=1.0&part=rows&view=all", "sort=backlog"),
        ("/consumers", "name=c&key=4&after=z", "name=c"),
        (f"{ORDERS}/messages", "text=%3Db%26c&key=4&after=1:2@3", "key=4&text=%3Db%26c"),
        (f"{ORDERS}/messages", "text=a&column=%24.b&column=key", "column=%24.b&column=key&text=a"),
        ("/acts", "q=%F0%9F%9A%80&before=7", "q=%F0%9F%9A%80"),
        ("/acts", "", ""),
    ],
)
def test_a_view_keeps_filters_and_order_but_no_place(
    path: str, query: str, kept: str, operator: Client, shop: Shop
) -> None:
    assert save(operator, path, query)["Location"] == f"{path}?{kept or 'view=all'}"
    assert SavedView.objects.get().query == kept


@pytest.mark.parametrize(
    "path",
    [
        "/users",
        "/",
        "//elsewhere.example/topics",
        "https://elsewhere.example/topics",
        "javascript:alert(1)",
        "/topics/new",
        "/t/persistent/public/default/x%00/messages",
        "/live",
        f"{ORDERS}/m/1:0",
    ],
)
def test_only_the_addresses_of_lists_can_be_saved(path: str, operator: Client, shop: Shop) -> None:
    assert save(operator, path, "q=x").status_code == 404
    assert not SavedView.objects.exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "Name: Give a name."),
        ("x" * 81, "At most 80 characters."),
        ("a\u202eb", "only visible characters"),
        ("a\nb", "only visible characters"),
        ("a\0b", "Null characters are not allowed"),
    ],
)
def test_a_name_that_a_page_cannot_show_is_refused(
    name: str, says: str, operator: Client, shop: Shop
) -> None:
    refused = save(operator, "/topics", "q=x", name)
    assert (refused.status_code, says in text_of(refused)) == (422, True)


def test_a_name_is_text_wherever_it_is_shown(operator: Client, shop: Shop) -> None:
    name = "<script>alert(1)</script>\"'& {{ x }}"
    save(operator, "/topics", "q=x", name)
    for address in ("/topics?view=all", "/views"):
        page = operator.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp; {{ x }}" in page


def test_filters_that_are_too_long_are_refused(operator: Client, shop: Shop) -> None:
    refused = save(operator, "/topics", "q=" + "x" * 4000)
    assert (refused.status_code, "longer than 4000 characters" in text_of(refused)) == (422, True)


def test_a_user_can_save_a_limited_number_of_views(
    operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "VIEWS_MOST", 2)
    for name in ("a", "b"):
        assert save(operator, "/topics", "q=x", name).status_code == 302
    refused = save(operator, "/topics", "q=x", "c")
    assert (refused.status_code, "You already have 2 views" in text_of(refused)) == (422, True)
    assert save(operator, "/topics", "q=y", "b").status_code == 302


def test_saving_under_the_same_name_replaces(operator: Client, shop: Shop) -> None:
    save(operator, "/topics", "q=x")
    save(operator, "/topics", "q=y", share="on")
    save(operator, "/acts", "q=z")
    assert list(SavedView.objects.order_by("id").values_list("path", "query", "shared_in")) == [
        ("/topics", "q=y", "*"),
        ("/acts", "q=z", ""),
    ]


def test_the_default_view_opens_when_the_address_has_no_query(
    operator: Client, looker: Client, shop: Shop
) -> None:
    save(operator, "/topics", "backlog=1", "waiting", default="on")
    assert operator.get("/topics")["Location"] == "/topics?backlog=1"
    for query in ("view=all", "q=x", "part=rows"):
        assert operator.get(f"/topics?{query}").status_code == 200
    assert looker.get("/topics").status_code == 200
    save(operator, "/topics", "q=ord", "orders", default="on")
    assert operator.get("/topics")["Location"] == "/topics?q=ord"
    change(operator, "waiting", "default")
    assert operator.get("/topics")["Location"] == "/topics?backlog=1"
    change(operator, "waiting", "no-default")
    assert operator.get("/topics").status_code == 200


def change(client: Client, view: str, what: str, **given: str) -> Any:
    return client.post(f"/views/{SavedView.objects.get(name=view).pk}/{what}", given)


def test_a_view_is_renamed_and_deleted(operator: Client, shop: Shop) -> None:
    save(operator, "/topics", "q=x", "a")
    save(operator, "/topics", "q=y", "b")
    assert change(operator, "a", "rename", name="c").status_code == 302
    assert [name for name, _, _ in chips(operator, "/topics")] == ["All", "b", "c"]
    taken = change(operator, "c", "rename", name="b")
    assert (taken.status_code, "already have a view" in text_of(taken)) == (422, True)
    assert change(operator, "c", "rename", name="").status_code == 422
    assert change(operator, "c", "rename", name="c").status_code == 302
    assert change(operator, "c", "delete").status_code == 302
    assert [name for name, _, _ in chips(operator, "/topics")] == ["All", "b"]
    assert change(operator, "b", "explode").status_code == 404


def test_a_shared_view_is_seen_by_users_with_the_same_rights(shop: Shop) -> None:
    ada = person("ada", {"*": Role.VIEWER, HOME: Role.OPERATOR, "garden/*": Role.OPERATOR})
    save(ada, "/topics", "q=secret-name", "all mine", share="on")
    save(ada, f"{ORDERS}/messages", "key=customer-1", "one customer", share="on")
    save(ada, "/topics", "q=private", "private")
    others = {
        "the same": person("pia", {HOME: Role.OPERATOR, "garden/*": Role.ADMIN}),
        "everything": person("anna", {"*": Role.ADMIN}),
        "one namespace": person("otto", {HOME: Role.OPERATOR}),
        "only looks": person("vera", {"*": Role.READER}),
        "elsewhere": person("greta", {"shop/*": Role.ADMIN}),
    }
    seen = {who: [name for name, _, _ in chips(client, "/topics")] for who, client in others.items()}
    assert seen == {
        "the same": ["All", "all mine by ada"],
        "everything": ["All", "all mine by ada"],
        "one namespace": [],
        "only looks": [],
        "elsewhere": [],
    }
    of_orders = {
        who: [name for name, _, _ in chips(client, f"{ORDERS}/messages")] for who, client in others.items()
    }
    assert of_orders == {
        "the same": ["All", "one customer by ada"],
        "everything": ["All", "one customer by ada"],
        "one namespace": ["All", "one customer by ada"],
        "only looks": [],
        "elsewhere": [],
    }
    for who in ("only looks", "elsewhere"):
        words = others[who].get("/views").content.decode()
        assert not [text for text in ("secret-name", "customer-1", "private", "mine") if text in words], who


@pytest.mark.parametrize("role", [Role.VIEWER, Role.READER])
def test_only_operators_share(role: Role, shop: Shop) -> None:
    vera = person("vera", {HOME: role})
    assert 'name="share"' not in vera.get("/topics").content.decode()
    for path in ("/topics", f"{ORDERS}/messages"):
        assert save(vera, path, "", share="on").status_code == 403
        assert save(vera, path, "").status_code == 302
    own = SavedView.objects.first()
    assert own is not None
    assert vera.post(f"/views/{own.pk}/share").status_code == 403
    oda = person("oda", {"garden/*": Role.OPERATOR, HOME: role})
    assert save(oda, f"{ORDERS}/messages", "", share="on").status_code == 403


def test_a_view_of_a_forbidden_namespace_is_not_kept_and_shows_nothing(shop: Shop) -> None:
    greta = person("greta", {"garden/*": Role.ADMIN})
    assert save(greta, f"{ORDERS}/messages", "").status_code == 404
    make_topic("persistent://garden/fruit/melons", backlog=1)
    ada = person("ada", {"*": Role.OPERATOR})
    save(ada, "/topics", "ns=public%2Fdefault", "home")
    assert "orders" not in text_of(greta.get(SavedView.objects.get().path + "?ns=public%2Fdefault"))


def test_a_user_cannot_change_the_view_of_another(shop: Shop) -> None:
    ada, pia, anna = (
        person(name, {"*": role})
        for name, role in (("ada", Role.OPERATOR), ("pia", Role.OPERATOR), ("anna", Role.ADMIN))
    )
    save(ada, "/topics", "q=x", "shared", share="on")
    save(ada, "/topics", "q=y", "private")
    for what in ("rename", "default", "no-default", "share", "unshare", "delete"):
        assert change(pia, "shared", what, name="z").status_code == 403, what
        assert change(pia, "private", what, name="z").status_code == 404, what
    for what in ("rename", "default", "no-default", "share"):
        assert change(anna, "shared", what, name="z").status_code == 403, what
    assert change(anna, "shared", "unshare").status_code == 302
    assert change(anna, "shared", "delete").status_code == 404
    assert change(ada, "shared", "share").status_code == 302
    assert change(anna, "shared", "delete").status_code == 302
    assert list(SavedView.objects.values_list("name", flat=True)) == ["private"]


def test_views_are_deleted_with_their_user_and_are_not_acts(operator: Client, shop: Shop) -> None:
    save(operator, "/topics", "q=x", share="on")
    assert not Act.objects.exists()
    User.objects.get(username="ada").delete()
    assert not SavedView.objects.exists()


def test_a_read_only_console_opens_views_and_saves_none(
    operator: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(operator, "/topics", "q=x", "kept", default="on")
    settings = dataclasses.replace(broker_settings(), console_read_only=True)
    monkeypatch.setattr(rights, "broker_settings", lambda: settings)
    assert operator.get("/topics")["Location"] == "/topics?q=x"
    page = operator.get("/topics?view=all").content.decode()
    assert ("kept" in page, 'action="/views"' in page) == (True, False)
    assert "/views/" not in operator.get("/views").content.decode()
    assert save(operator, "/topics", "q=y").status_code == 403


def test_two_spellings_of_one_path_are_the_same_list(shop: Shop) -> None:
    plain, encoded = (
        list_at(f"{ORDERS}/messages"),
        list_at(f"{ORDERS.replace('orders', '%6Frders')}/messages"),
    )
    assert plain is not None
    assert encoded is not None
    assert plain.path == encoded.path == f"{ORDERS}/messages"
    assert list_at("/topics" + "x" * 2000) is None


def test_a_form_of_another_site_cannot_save_a_view(operator: Client, shop: Shop) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    body = urlencode({"path": "/topics", "query": "", "name": "x"})
    answer = strict.post("/views", body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 403


def test_many_views_that_others_share_elsewhere_hide_none_of_your_own(shop: Shop) -> None:
    oda = person("oda", {HOME: Role.OPERATOR})
    other = User.objects.create_user("zoe")
    SavedView.objects.bulk_create(
        SavedView(user=other, path="/acts", name=f"{number}", query="kind=skip", shared_in="elsewhere/*")
        for number in range(1000)
    )
    save(oda, "/topics", "backlog=1", "yours")
    assert "yours" in text_of(oda.get("/views"))
    save(oda, "/acts", "kind=reset", "z")
    assert [name for name, *_ in chips(oda, "/acts")] == ["All", "z"]
