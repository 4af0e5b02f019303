"""docs/reference/commands.md: every make target and every management command of Vela's own."""

from __future__ import annotations

import re

from django.core.management import get_commands

from config.environment import PROJECT_DIR
from tests.unit.docs.pages import code_names, page, rows, section

COMMANDS = page("reference/commands.md")


def test_every_make_target_is_documented() -> None:
    makefile = (PROJECT_DIR / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    assert targets
    documented = [code_names(cells[0])[0] for cells in rows(section(COMMANDS, "make"))]
    assert sorted(name.removeprefix("make ") for name in documented if name.startswith("make ")) == sorted(
        targets
    )


def test_every_management_command_is_documented() -> None:
    own = {name for name, app in get_commands().items() if app in ("broker", "console")}
    documented = {code_names(cells[0])[0].split()[0] for cells in rows(section(COMMANDS, "manage.py"))}
    assert documented == own
