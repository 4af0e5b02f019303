"""A logged-in operator's window on a started console."""

from tests.integration.console.test_browser import chromium, console, console_url, errors, page

__all__ = ["chromium", "console", "console_url", "errors", "page"]
