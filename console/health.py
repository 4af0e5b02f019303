"""Health probes of the console process."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse

__all__ = ["healthz", "readyz"]


@login_not_required
async def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 to show that the process runs."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
async def readyz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 if the database answers, else 503 with the reason."""
    try:
        await sync_to_async(_reach_database)()
    except DatabaseError as error:
        reason = str(error).partition("\n")[0]
        return HttpResponse(f"database: {reason}\n", status=503, content_type="text/plain")
    return HttpResponse("ready\n", content_type="text/plain")


def _reach_database() -> None:
    # `ensure_connection` does not check a connection that is already open.
    if connection.connection is not None and not connection.is_usable():
        connection.close()
    connection.ensure_connection()
