"""`make pictures`: let a company work on a Vela in an empty folder, and take pictures of the console's pages.

Without `--into`, the command takes the pictures of the documentation. With `--into`, it takes every page in four ways:
light, dark, in Chinese, and on a phone.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from config.environment import PROJECT_DIR
from config.run import demo
from tests.pictures.company import Company
from tests.pictures.furnish import SETTINGS, furnish, furnish_later, make_topics
from tests.pictures.pages import IN_DOCS, addresses
from tests.pictures.past import remember_an_hour
from tests.support.vela import ADMIN_PASSWORD, VelaProcess, prepared_vela

__all__ = ["VIEWS", "chromium", "take"]

_DOCS: Final = PROJECT_DIR / "docs" / "images"
_SETTLED_MS: Final = 400  # until charts are drawn
_PATIENCE_MS: Final = 120_000  # the machine may be busy
_START_S: Final = 400.0
_DEMO_S: Final = 90
_PHONE_SHOWN: Final = 1100
_TUTORIAL: Final = {
    "overview": ("/", 980),
    "topic": ("/t/persistent/public/default/demo-orders", 960),
    "subscription": ("/t/persistent/public/default/demo-reports/s/reports", 1400),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A way to look at a page."""

    width: int = 1280
    height: int = 800
    scheme: Any = "light"
    language: str = "en-GB"
    is_phone: bool = False


VIEWS: Final = {
    "light": View(),
    "dark": View(scheme="dark"),
    "chinese": View(language="zh-CN"),
    "phone": View(width=390, height=844, is_phone=True),
}


def main(arguments: Sequence[str]) -> int:
    """Take the pictures. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("--into", type=Path, help="folder for pictures of every page")
    parser.add_argument(
        "--seconds", type=int, default=150, help="how long the company works before the first one"
    )
    asked = parser.parse_args(arguments)
    with chromium() as browser:
        with _working_company(asked.seconds) as vela:
            pages = addresses(vela)
            if asked.into is None:
                take_docs(browser, vela, pages)
            else:
                for name, view in VIEWS.items():
                    take(browser, vela, view, pages, asked.into / name)
        if asked.into is None:
            with _demo() as vela:
                shown = {name: address for name, (address, _) in _TUTORIAL.items()}
                heights = {name: height for name, (_, height) in _TUTORIAL.items()}
                take(browser, vela, VIEWS["light"], shown, _DOCS, heights)
    return 0


@contextmanager
def _working_company(seconds: int) -> Iterator[VelaProcess]:
    with ExitStack() as stack:
        vela = stack.enter_context(prepared_vela(SETTINGS))
        vela.start(_START_S)
        make_topics(vela)
        furnish(vela)
        stack.enter_context(Company(vela.pulsar_url))
        remember_an_hour(vela.database_url)
        _wait(seconds * 2 // 3)
        furnish_later(vela)
        _wait(seconds // 3)
        yield vela


@contextmanager
def _demo() -> Iterator[VelaProcess]:
    """Run a Vela with the messages of `make demo`, for the tutorial."""
    with prepared_vela() as vela:
        vela.start(_START_S)
        work = demo.Demo(vela.pulsar_url)
        thread = Thread(target=work.run)
        thread.start()
        try:
            _wait(_DEMO_S)
            yield vela
        finally:
            work.end()
            thread.join()


def _wait(seconds: int) -> None:
    Event().wait(seconds)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def take_docs(browser: Browser, vela: VelaProcess, pages: Mapping[str, str]) -> None:
    """Take the documentation's pictures: light ones of most pages, and the two most important pages in all ways."""
    shown = {name: pages[page] for name, (page, _) in IN_DOCS.items()}
    take(browser, vela, VIEWS["light"], shown, _DOCS, {name: height for name, (_, height) in IN_DOCS.items()})
    for way, height in (("dark", 1000), ("phone", _PHONE_SHOWN), ("chinese", 1000)):
        both = {f"console-{page}-{way}": pages[page] for page in ("overview", "subscription-poison")}
        take(browser, vela, VIEWS[way], both, _DOCS, dict.fromkeys(both, height))


def take(
    browser: Browser,
    vela: VelaProcess,
    view: View,
    pages: Mapping[str, str],
    folder: Path,
    heights: Mapping[str, int] | None = None,
) -> None:
    """Take a picture of each page as the admin sees it: of its whole length, or of the given height."""
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
    for name, address in pages.items():
        if address == "/login":
            page.goto(address)
            _shoot(page, view, folder / f"{name}.png", (heights or {}).get(name))
    page.goto("/login")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", ADMIN_PASSWORD)
    page.click("main [type=submit]")
    page.wait_for_selector("main:not(:has([name=password]))")
    for name, address in pages.items():
        if address != "/login":
            page.goto(address)
            _shoot(page, view, folder / f"{name}.png", (heights or {}).get(name))
    context.close()


def _shoot(page: Page, view: View, path: Path, height: int | None) -> None:
    page.set_viewport_size({"width": view.width, "height": height or view.height})
    page.wait_for_timeout(_SETTLED_MS)
    page.screenshot(path=path, full_page=height is None, timeout=_PATIENCE_MS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
