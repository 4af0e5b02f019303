"""`make pictures`: start a Vela in an empty folder, let a company work on it, and take a picture of every page.

Each page is taken in four ways: light, dark, Chinese, and on a phone. `--docs` writes those of the documentation.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from config.environment import PROJECT_DIR
from tests.pictures.company import Company
from tests.pictures.furnish import SETTINGS, furnish, furnish_later, make_topics
from tests.pictures.pages import addresses
from tests.pictures.past import remember_an_hour
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, started_vela

DOCS: Final = PROJECT_DIR / "docs" / "images"
_SETTLED_MS: Final = 400  # charts are drawn
_PATIENCE_MS: Final = 120_000  # the machine may be busy


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A way to look at a page."""

    name: str
    width: int = 1280
    height: int = 800
    scheme: Any = "light"
    language: str = "en-GB"
    is_phone: bool = False


VIEWS: Final = {
    view.name: view
    for view in (
        View(name="light"),
        View(name="dark", scheme="dark"),
        View(name="chinese", language="zh-CN"),
        View(name="phone", width=390, height=844, is_phone=True),
    )
}


def main(arguments: Sequence[str]) -> int:
    """Take the pictures. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("--into", type=Path, default=PROJECT_DIR / "pictures", help="folder of the pictures")
    parser.add_argument("--seconds", type=int, default=150, help="how long the company works before the first one")
    parser.add_argument("--only", nargs="*", default=(), help="names of pages, such as overview")
    parser.add_argument("--views", nargs="*", choices=VIEWS, default=list(VIEWS))
    asked = parser.parse_args(arguments)
    with ExitStack() as stack:
        vela = stack.enter_context(started_vela(SETTINGS))
        make_topics(vela)
        furnish(vela)
        stack.enter_context(Company(vela.pulsar_url))
        remember_an_hour(vela.database_url)
        _wait(asked.seconds * 2 // 3)
        furnish_later(vela)
        _wait(asked.seconds // 3)
        pages = {name: each for name, each in addresses(vela).items() if name in (asked.only or [name])}
        with _chromium() as browser:
            for view in asked.views:
                _take(browser, vela, VIEWS[view], pages, asked.into / view)
    return 0


def _wait(seconds: int) -> None:
    Event().wait(seconds)


@contextmanager
def _chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def _take(browser: Browser, vela: VelaProcess, view: View, pages: Mapping[str, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        base_url=vela.console_url,
        viewport={"width": view.width, "height": view.height},
        color_scheme=view.scheme,
        locale=view.language,
        is_mobile=view.is_phone,
        has_touch=view.is_phone,
    )
    context.set_default_timeout(_PATIENCE_MS)
    page = context.new_page()
    page.goto("/login")
    _shoot(page, folder / "login.png")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", ADMIN_PASSWORD)
    page.click("main [type=submit]")
    page.wait_for_selector("h1")
    for name, address in pages.items():
        page.goto(address)
        _shoot(page, folder / f"{name}.png")
    context.close()


def _shoot(page: Page, path: Path) -> None:
    page.wait_for_timeout(_SETTLED_MS)
    page.screenshot(path=path, full_page=True, timeout=_PATIENCE_MS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
