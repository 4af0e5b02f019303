"""Which namespaces a pattern covers, and which of several roles applies."""

from __future__ import annotations

import pytest

from broker.login_settings import ROLES
from console.access.rights import Rights
from console.access.roles import covers, namespace_of, role_for
from console.models import Role
from console.queries.rights import GrantRow, Scope


def rights(**roles: Role) -> Rights:
    """Return rights by pattern; in a keyword an underscore stands for the slash, and `all` for the star."""
    named = {name.replace("_", "/").replace("all", "*"): role for name, role in roles.items()}
    return Rights(
        name="pia",
        grants=tuple(
            GrantRow(role=role, pattern=name, namespace_ids=[len(name)]) for name, role in named.items()
        ),
    )


@pytest.mark.parametrize(
    ("pattern", "covered", "left_out"),
    [
        ("*", ["shop/orders", "a/b", "*"], []),
        (
            "shop/*",
            ["shop/orders", "shop/x"],
            ["shopping/orders", "a/shop", "shop", "shop/", "shop/a/b", "*"],
        ),
        (
            "shop/orders",
            ["shop/orders"],
            ["shop/orders2", "shop/order", "shop/*", "shop/orders/x", "/orders"],
        ),
    ],
)
def test_a_pattern_covers_whole_names_only(pattern: str, covered: list[str], left_out: list[str]) -> None:
    assert [name for name in covered + left_out if covers(pattern, name)] == covered


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("persistent://shop/orders/new", "shop/orders"),
        ("non-persistent://shop/orders/a/b", "shop/orders"),
        ("shop/orders", "shop/orders"),
        ("persistent://shop", "shop"),
    ],
)
def test_a_topic_is_in_its_namespace(name: str, namespace: str) -> None:
    assert namespace_of(name) == namespace


def test_the_highest_role_applies() -> None:
    pia = rights(all=Role.VIEWER, shop_all=Role.OPERATOR, shop_orders=Role.READER)
    assert pia.role_in("persistent://shop/orders/new") is Role.OPERATOR
    assert pia.role_in("a/b") is Role.VIEWER
    assert (pia.at("a/b").may_act, pia.at("shop/x").may_act, pia.may_act) == (False, True, True)
    assert (pia.may_read_payloads("a/b"), pia.may_read_payloads("shop/x")) == (False, True)


def test_without_a_role_there_are_no_rights() -> None:
    pia = rights(shop_orders=Role.ADMIN)
    assert pia.role_in("a/b") is None
    assert (pia.may_see("a/b"), pia.is_admin("a/b"), pia.is_admin(), pia.is_admin("shop/orders")) == (
        False,
        False,
        False,
        True,
    )
    assert pia.at("a/b").role == "nobody"
    assert not rights().sees_anything


def test_acts_require_different_roles() -> None:
    assert {
        kind: role_for(kind) for kind in ("reset", "create_topic", "truncate", "unheard_of")
    } == dict.fromkeys(("reset", "create_topic", "truncate", "unheard_of"), Role.OPERATOR)
    assert role_for("set_namespace_policies") is role_for("delete_topic") is Role.ADMIN


def test_a_scope_contains_what_lists_may_show() -> None:
    assert rights(all=Role.VIEWER, shop_orders=Role.ADMIN).scope == Scope()
    scope = rights(shop_all=Role.VIEWER, a_b=Role.VIEWER).scope
    assert (scope.namespace_ids, scope.namespaces, scope.tenants) == ((3, 6), ("a/b", "shop/*"), ("shop",))
    nothing = rights().scope
    assert (nothing.is_everything, nothing.of_topics) == (False, {"namespace_ids": []})


def test_the_settings_know_the_roles() -> None:
    assert tuple(role.word for role in Role) == ROLES
