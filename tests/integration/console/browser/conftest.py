"""The browser that shows the pages."""

from tests.support.browser import chromium

__all__ = ["chromium"]
