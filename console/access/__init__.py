"""Roles for namespaces, rights of users, and checks that run before views."""

from __future__ import annotations

from console.access.acting import named_by, plan
from console.access.guards import admin_everywhere_only, admin_only, check_may_act, operator_only, viewer
from console.access.rights import Rights, rights_of
from console.access.roles import role_for
from console.models import Role

__all__ = [
    "Rights",
    "Role",
    "admin_everywhere_only",
    "admin_only",
    "check_may_act",
    "named_by",
    "operator_only",
    "plan",
    "rights_of",
    "role_for",
    "viewer",
]
