"""A real Chromium for tests of pages."""

from __future__ import annotations

import gc
import os
import shutil
import warnings
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

__all__ = ["chromium"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("Chromium is not installed: apt-get install chromium")
    # Playwright keeps an event loop running in this thread, where Django would refuse to use the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
        del browser
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
    # Playwright stops its driver without waiting for it, and Python warns of that when the object is collected.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
