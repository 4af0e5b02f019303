"""Bookmarks: the list of all, the list of a topic, and the way from a bookmark to a cursor."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from broker.models import Bookmark, Subscription, Topic
from console.queries.topics.bookmarks import PAGE_ROWS
from console.queries.topics.topic import ROWS_TO_CHOOSE
from tests.integration.console.pages import text_of
from tests.integration.console.shop import Shop, make_topic

PAGE = "/t/persistent/public/default/orders"


def mark(topic: Topic, name: str, **changes: Any) -> Bookmark:
    fields = {"ledger_id": 1, "entry_id": 0, "until": now() + timedelta(days=2), "who": "ada", **changes}
    return Bookmark.objects.create(topic=topic, name=name, **fields)


def names(response: Any) -> list[str]:
    return re.findall(r'class="name"[^>]*>([^<]+)<', response.content.decode())


def test_each_bookmark_says_what_it_keeps_and_until_when(looker: Client, shop: Shop) -> None:
    mark(shop.topic, "release", ledger_id=shop.sealed.pk, entry_id=4)
    mark(shop.topic, "for ever", until=None, ledger_id=shop.open.pk)
    mark(shop.topic, "old", until=now() - timedelta(days=1), ledger_id=shop.open.pk)
    page = looker.get("/bookmarks")
    assert names(page) == ["for ever", "old", "release"]
    words = text_of(page)
    assert "until it is deleted –" in words
    assert "no longer, since" in words
    assert f"release {shop.sealed.pk}:4 of orders until" in words
    assert "1.0 kB" in words
    assert "Reset to this bookmark" not in words


def test_the_list_is_searched_and_paged(operator: Client, shop: Shop) -> None:
    for number in range(PAGE_ROWS + 1):
        mark(shop.topic, f"b{number:03}")
    other = make_topic("persistent://shop/eu/others")
    mark(other, "elsewhere")
    first = operator.get("/bookmarks")
    assert len(names(first)) == PAGE_ROWS
    (following,) = re.findall(r'href="\?([^"]+)" rel="next"', first.content.decode())
    second = operator.get("/bookmarks?" + following.replace("&amp;", "&"))
    assert names(second) == [f"b{PAGE_ROWS:03}", "elsewhere"]
    assert names(operator.get("/bookmarks?q=shop/eu")) == ["elsewhere"]
    assert names(operator.get("/bookmarks?q=%25")) == []
    assert "No bookmark matches." in text_of(operator.get("/bookmarks?q=%25"))


def test_a_topic_shows_its_bookmarks_and_a_partitioned_topic_those_of_its_partitions(
    operator: Client, shop: Shop
) -> None:
    assert "There are no bookmarks." in text_of(operator.get(f"{PAGE}?tab=bookmarks"))
    mark(shop.topic, "mine")
    parent = make_topic("persistent://public/default/dates")
    parent.partitions = 1
    parent.save()
    part = make_topic("persistent://public/default/dates-partition-0", parent=parent)
    mark(part, "of the partition")
    assert names(operator.get(f"{PAGE}?tab=bookmarks&part=bookmarks")) == ["mine"]
    page = operator.get("/t/persistent/public/default/dates?tab=bookmarks&part=bookmarks")
    assert names(page) == ["of the partition"]
    assert "of dates-partition-0" in text_of(page)


def test_a_bookmark_leads_to_the_form_that_moves_a_cursor_to_it(operator: Client, shop: Shop) -> None:
    mark(shop.topic, "a & b")
    page = operator.get(f"{PAGE}?tab=bookmarks").content.decode()
    (to_choose,) = re.findall(r'href="([^"]*/choose/reset[^"]*)"', page)
    chosen = operator.get(to_choose.replace("&amp;", "&"))
    assert names(chosen) == ["billing"]
    (form,) = re.findall(r'class="name" href="([^"]+)"', chosen.content.decode())
    filled = operator.get(form.replace("&amp;", "&")).content.decode()
    assert re.search(r'id="to-bookmark"[^>]*\bchecked', filled)
    assert 'value="a &amp; b"' in filled
    (to_delete,) = re.findall(r'href="([^"]*/act/delete-bookmark[^"]*)"', page)
    assert 'value="a &amp; b"' in operator.get(to_delete).content.decode()


def test_the_subscription_is_found_by_name_among_many(operator: Client, shop: Shop) -> None:
    for number in range(ROWS_TO_CHOOSE):
        Subscription.objects.create(topic=shop.topic, name=f"s{number:03}", type="Shared")
    address = f"{PAGE}/choose/skip_one?id=1:2"
    first = operator.get(address)
    assert len(names(first)) == ROWS_TO_CHOOSE
    (following,) = re.findall(r'href="\?([^"]+)" rel="next"', first.content.decode())
    assert names(operator.get(f"{PAGE}/choose/skip_one?{following.replace('&amp;', '&')}")) == ["s049"]
    found = operator.get(f"{address}&q=bill")
    assert names(found) == ["billing"]
    assert "/s/billing/act/skip_one?id=1%3A2" in found.content.decode()
    assert "has “zzz” in its name" in text_of(operator.get(f"{address}&q=zzz"))


@pytest.mark.parametrize("address", [f"{PAGE}/choose/explode", f"{PAGE}-not/choose/reset"])
def test_an_unknown_act_or_topic_has_no_page_to_choose_a_subscription(
    address: str, operator: Client, shop: Shop
) -> None:
    assert operator.get(address).status_code == 404


def test_only_operators_may_choose_a_subscription(looker: Client, anonymous: Client, shop: Shop) -> None:
    assert looker.get(f"{PAGE}/choose/reset").status_code == 403
    assert anonymous.get(f"{PAGE}/choose/reset")["Location"].startswith("/login")


def test_rows_of_messages_lead_to_forms_that_move_the_cursor_there(
    operator: Client, looker: Client, shop: Shop
) -> None:
    page = operator.get(f"{PAGE}/messages?start=oldest").content.decode()
    assert f'href="{PAGE}/choose/reset?to=id&amp;id={shop.sealed.pk}:0&amp;start=at"' in page
    page = operator.get(f"{PAGE}/messages?start=oldest&sub=billing").content.decode()
    assert f'href="{PAGE}/s/billing/act/reset?to=id&amp;id={shop.sealed.pk}:5&amp;start=at"' in page
    assert f'href="{PAGE}/s/billing/act/skip_one?id={shop.sealed.pk}:5"' in page
    assert f'href="{PAGE}/s/billing/act/skip_one?id={shop.sealed.pk}:0"' not in page  # the message is acked
    assert "Reset here" not in looker.get(f"{PAGE}/messages?start=oldest").content.decode()
