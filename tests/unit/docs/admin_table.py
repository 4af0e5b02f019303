"""Make the tables of docs/reference/admin-rest.md from the operations themselves.

After a change of the API, run `python -m tests.unit.docs.admin_table`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from config.environment import PROJECT_DIR

__all__ = ["PAGE", "page_with_tables", "tables"]

PAGE: Final = PROJECT_DIR / "docs" / "reference" / "admin-rest.md"
_START: Final = "## Operations\n"
_SECTIONS: Final = {
    "/admin/v2/clusters": "Clusters",
    "/admin/v2/brokers": "Brokers",
    "/admin/v2/broker-stats": "Brokers",
    "/admin/v2/tenants": "Tenants",
    "/admin/v2/namespaces": "Namespaces",
    "/admin/v2/{domain}": "Topics",
    "/admin/v2/schemas": "Schemas",
    "/lookup/v2": "Lookup",
    "/topics/": "Publish",
}


def tables() -> str:
    """Return the part of the page that begins with the heading of the operations."""
    from broker.doors.admin.absent import ABSENT
    from broker.doors.admin.api import API
    from broker.doors.admin.operations import Described, described

    sections: dict[str, list[Described]] = {}
    for each in described(API):
        name = next(name for prefix, name in _SECTIONS.items() if each.path.startswith(prefix))
        sections.setdefault(name, []).append(each)

    def lines() -> Iterator[str]:
        yield _START
        for name, operations in sections.items():
            yield f"### {name}\n"
            yield "| request | answer | the caller must be allowed to |\n|---|---|---|"
            for each in operations:
                answer = f"refused: {each.refused}" if each.refused else each.summary
                yield f"| `{each.method} {each.path}` | {answer} | {each.action} |"
            yield ""
        yield "## Absent\n\nThese requests get 404 with this reason:\n"
        yield "| request | reason |\n|---|---|"
        for line, reason in ABSENT.items():
            yield f"| `{line}` | {reason} |"

    return "\n".join(lines()) + "\n"


def page_with_tables() -> str:
    """Return the page as it should be."""
    return PAGE.read_text("utf-8").partition(_START)[0] + tables()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    PAGE.write_text(page_with_tables(), "utf-8")
