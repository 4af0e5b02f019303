"""Links between pages lead somewhere, and every page can be reached from the index."""

from __future__ import annotations

import re
from pathlib import Path

from config.environment import PROJECT_DIR
from tests.unit.docs.pages import DOCS_DIR

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def targets(path: Path) -> set[Path]:
    """Return the files that a page links to."""
    text = path.read_text(encoding="utf-8")
    return {(path.parent / link).resolve() for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)}


def test_no_link_is_dead() -> None:
    pages = [*DOCS_DIR.rglob("*.md"), PROJECT_DIR / "README.md", PROJECT_DIR / "CONTRIBUTING.md"]
    dead = [
        f"{path.relative_to(PROJECT_DIR)} → {to}" for path in pages for to in targets(path) if not to.exists()
    ]
    assert dead == []


def test_every_page_is_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = {DOCS_DIR / "README.md"}
    while waiting:
        path = waiting.pop()
        reached.add(path)
        if path.suffix == ".md" and path.exists():
            waiting |= {to for to in targets(path) if to.is_relative_to(DOCS_DIR)} - reached
    assert set(DOCS_DIR.rglob("*.md")) - reached == set()
