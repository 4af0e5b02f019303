"""The ASGI handler of the console's pages: middleware and view of a request run in one thread."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase

__all__ = ["PagesHandler"]


class PagesHandler(ASGIHandler):
    """Django's handler, except that a request goes to its thread once.

    Django's handler runs synchronous views in a thread too, but calls most middleware from the event loop, twice for
    each request, and each call goes to the thread and back. These switches were two fifths of the CPU time that the
    console used to answer a block of a page. An asynchronous view still works, but costs two switches more.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Build the chain of middleware for a thread, whatever Django's handler asks for."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response. If the client leaves meanwhile, the thread finishes, and nobody gets the response."""
        return await sync_to_async(self.get_response)(request)
