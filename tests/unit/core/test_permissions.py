"""Who may do what: broker.core.access.permissions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.access.permissions import (
    CLUSTER,
    Action,
    Grants,
    Permission,
    Subject,
    allows,
    check_grant,
)
from broker.core.access.principal import ANONYMOUS, Principal, behind_proxy
from broker.core.errors import NotAllowed, NotAuthorized
from broker.core.topic_name import TopicName

ORDERS = Subject.of_topic(TopicName.parse("shop/eu/orders"))
BILLING = Subject.of_topic(TopicName.parse("shop/eu/orders"), "billing")
MINE = Subject.of_topic(TopicName.parse("shop/eu/orders"), "mine")
SHOP_EU = Subject.of_namespace("shop", "eu")
TENANT = Subject(tenant="shop")


def role(name: str) -> Principal:
    return Principal(role=name, method="token", expires_ms=None, token_id=None)


GRANTS = Grants(
    superusers=frozenset({"root"}),
    tenant_admins={"shop": {"manager"}, "": {"nobody"}},
    namespaces={"shop/eu": {"app": {Permission.PRODUCE, Permission.CONSUME}, "sink": {Permission.SINKS}}},
    topics={"persistent://shop/eu/orders": {"reader": {Permission.CONSUME}, "writer": {Permission.PRODUCE}}},
    subscriptions={("shop/eu", "billing"): {"app"}},
)


@pytest.mark.parametrize(
    ("who", "action", "subject", "expected"),
    [
        ("root", Action.RULE, CLUSTER, True),
        ("root", Action.PRODUCE, Subject.of_topic(TopicName.parse("other/ns/t")), True),
        ("manager", Action.RULE, CLUSTER, False),
        ("manager", Action.ADMINISTER, TENANT, True),
        ("manager", Action.ADMINISTER, ORDERS, True),
        ("manager", Action.CONSUME, BILLING, True),
        ("manager", Action.ADMINISTER, Subject(tenant="other"), False),
        ("nobody", Action.RULE, CLUSTER, False),
        ("app", Action.PRODUCE, ORDERS, True),
        ("app", Action.LOOK_UP, SHOP_EU, True),
        ("app", Action.ADMINISTER, SHOP_EU, False),
        ("app", Action.CONSUME, BILLING, True),
        ("sink", Action.LOOK_UP, ORDERS, False),
        ("reader", Action.CONSUME, ORDERS, True),
        ("reader", Action.CONSUME, MINE, True),
        ("reader", Action.CONSUME, BILLING, False),
        ("reader", Action.PRODUCE, ORDERS, False),
        ("reader", Action.LOOK_UP, ORDERS, True),
        ("reader", Action.LOOK_UP, SHOP_EU, False),
        ("writer", Action.CONSUME, ORDERS, False),
        ("writer", Action.LOOK_UP, ORDERS, True),
        ("stranger", Action.LOOK_UP, ORDERS, False),
    ],
)
def test_a_role_may_do_what_was_granted_and_nothing_else(
    who: str, action: Action, subject: Subject, expected: bool
) -> None:
    assert allows(GRANTS, role(who), action, subject) is expected


def test_a_partition_has_the_permissions_of_its_topic_and_of_no_other_domain() -> None:
    partition = Subject.of_topic(TopicName.parse("shop/eu/orders-partition-3"))
    assert partition == ORDERS
    other = Subject.of_topic(TopicName.parse("non-persistent://shop/eu/orders"))
    assert not allows(GRANTS, role("reader"), Action.CONSUME, other)


names = st.sampled_from(["a", "b", "c"])
permissions = st.dictionaries(names, st.frozensets(st.sampled_from(Permission)), max_size=3)
grants = st.builds(
    Grants,
    tenant_admins=st.dictionaries(names, st.frozensets(names)),
    namespaces=st.dictionaries(st.just("a/a"), permissions),
    topics=st.dictionaries(st.just("persistent://a/a/t"), permissions),
    subscriptions=st.dictionaries(st.just(("a/a", "s")), st.frozensets(names)),
)
subjects = st.sampled_from(
    [
        CLUSTER,
        Subject(tenant="a"),
        Subject.of_namespace("a", "a"),
        Subject.of_topic(TopicName.parse("a/a/t")),
        Subject.of_topic(TopicName.parse("a/a/t"), "s"),
    ]
)


@given(grants, st.sampled_from(Action), subjects)
def test_a_role_without_a_grant_may_do_nothing(granted: Grants, action: Action, subject: Subject) -> None:
    assert not allows(granted, role("stranger"), action, subject)
    assert not allows(granted, ANONYMOUS, action, subject)


@given(grants, names, st.sampled_from(Action), subjects)
def test_a_superuser_may_do_everything(granted: Grants, who: str, action: Action, subject: Subject) -> None:
    with_root = Grants(superusers=frozenset({who}), namespaces=granted.namespaces, topics=granted.topics)
    assert allows(with_root, role(who), action, subject)


def client(role: str, **more: object) -> Principal:
    fields: dict[str, Any] = {"method": "token", "expires_ms": None, "token_id": None, **more}
    return Principal(role=role, **fields)


def test_a_proxy_connects_for_its_client_and_both_need_the_permission() -> None:
    behind = behind_proxy(client("proxy"), "app", ["proxy"])
    assert (behind.role, behind.proxy_role) == ("app", "proxy")
    topic = Subject(tenant="t", namespace="t/n", topic="persistent://t/n/x")
    for roles, may in ((("app",), False), (("proxy",), False), (("app", "proxy"), True)):
        grants = Grants(namespaces={"t/n": {each: {Permission.PRODUCE} for each in roles}})
        assert allows(grants, behind, Action.PRODUCE, topic) == may
    assert not allows(Grants(superusers=frozenset({"proxy"})), behind, Action.RULE, CLUSTER)
    assert not allows(Grants(superusers=frozenset({"app"})), behind, Action.RULE, CLUSTER)


@pytest.mark.parametrize(
    ("who", "original", "said"),
    [
        ("app", "other", "is not a proxy"),
        ("app", "proxy", "is not a proxy"),
        ("proxy", "", "must name the role"),
        ("proxy", "proxy", "no proxy can connect for it"),
        ("proxy", "proxy2", "no proxy can connect for it"),
    ],
)
def test_a_combination_of_proxy_and_client_that_does_not_fit_is_refused(
    who: str, original: str, said: str
) -> None:
    with pytest.raises(NotAuthorized, match=said):
        behind_proxy(client(who), original, ["proxy", "proxy2"])


def test_a_client_without_a_proxy_may_name_itself() -> None:
    for original in ("", "app"):
        assert behind_proxy(client("app"), original, ["proxy"]) == client("app")


@pytest.mark.parametrize(
    ("proxys", "own", "ends"), [(None, 5, 5), (3, None, 3), (3, 5, 3), (None, None, None)]
)
def test_credentials_behind_a_proxy_end_with_the_first_of_both(
    proxys: int | None, own: int | None, ends: int | None
) -> None:
    checked = client("app", expires_ms=own, token_id="t")
    assert behind_proxy(client("proxy", expires_ms=proxys), checked, ["proxy"]) == client(
        "app", expires_ms=ends, proxy_role="proxy", original=checked
    )


@pytest.mark.parametrize("name", ["", " ", "a\0", "\ud800", "x" * 1025])
def test_a_role_that_cannot_be_stored_gets_no_grant(name: str) -> None:
    check_grant(BILLING, ["app"])
    with pytest.raises(NotAllowed, match="role"):
        check_grant(BILLING, ["app", name])


def test_a_subscription_that_cannot_be_stored_gets_no_grant() -> None:
    with pytest.raises(NotAllowed, match="subscription"):
        check_grant(Subject(tenant="shop", namespace="shop/eu", subscription="a\0"), ["app"])
