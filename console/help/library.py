"""Find the pages and pictures of the documentation in a checkout or an installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["page_name", "pages", "pictures", "runbook_page"]

_CONSOLE: Final = Path(__file__).resolve().parents[1]
_INDEX: Final = "README"


@cache
def pages() -> dict[str, Path]:
    """Return the file of each page, by page name."""
    folder = _folder()
    return {page_name(path.relative_to(folder).as_posix()): path for path in folder.rglob("*.md")}


@cache
def pictures() -> dict[str, Path]:
    """Return the file of each picture, by the picture's path in the documentation."""
    folder = _folder()
    return {path.relative_to(folder).as_posix(): path for path in folder.glob("images/*.png")}


def page_name(file: str) -> str:
    """Return the page's name, which is the file's path without `.md` or `README.md`."""
    return file.removesuffix(".md").removesuffix(_INDEX).removesuffix("/")


def runbook_page(rule: str) -> str:
    """Return the name of the runbook's page for a diagnosis rule, or for a problem of Vela itself."""
    return f"runbook/{rule.replace('_', '-')}"


def _folder() -> Path:
    installed = _CONSOLE / "docs"
    return installed if installed.is_dir() else _CONSOLE.parent / "docs"
