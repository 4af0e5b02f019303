"""The notices at the top of a page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.queries.chrome import Chrome
from console.words import numerals
from console.words.troubles import WORDS, Trouble, TroubleWords, effects_of

__all__ = ["Notices", "database_is_silent", "notices_of", "own_notices"]

_OF_THE_BROKER = (Trouble.BROKER_SILENT, Trouble.BROKER_STOPPED, Trouble.NO_BROKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notices:
    """The current problems as the page shows them."""

    html: SafeString  # Empty if all is well
    effects: tuple[str, ...] = ()  # CSS classes of the page's body element
    since_ms: int | None = None  # The page's numbers have been stale since this time

    def to_json(self) -> dict[str, Any]:
        """Return the data for the `health` event of the live stream."""
        return {"html": self.html, "effects": self.effects, "since_ms": self.since_ms}


def notices_of(state: Chrome, waiting_acts: int) -> Notices:
    """Return the notices for `state`."""
    return _rendered(state.troubles, now_ms=state.now_ms, state=state, waiting_acts=waiting_acts)


def database_is_silent(since_ms: int | None) -> Notices:
    """Return the notice that the database does not answer."""
    return _rendered({Trouble.DATABASE: since_ms}, now_ms=int(time.time() * 1000))


def own_notices() -> list[tuple[str, str, SafeString]]:
    """Return the name, effects and notice of each problem that the page's script detects."""
    return [
        (trouble, " ".join(WORDS[trouble].effects), _html([_notice(trouble, is_blank=True)], now_ms=0))
        for trouble in (Trouble.CONSOLE, Trouble.DATABASE)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notice:
    trouble: Trouble
    words: TroubleWords
    since_ms: int | None
    since_iso: str
    clock: str
    is_blank: bool  # True if the page's script fills in the time
    host: str | None
    pid: int | None
    waiting_acts: int


def _notice(
    trouble: Trouble,
    *,
    since_ms: int | None = None,
    now_ms: int = 0,
    is_blank: bool = False,
    state: Chrome | None = None,
    waiting_acts: int = 0,
) -> _Notice:
    words = WORDS[trouble]
    of_broker = state if trouble in _OF_THE_BROKER else None
    return _Notice(
        trouble=trouble,
        words=replace(words, title=_(words.title), meaning=_(words.meaning), when=_(words.when)),
        since_ms=since_ms,
        since_iso=datetime.fromtimestamp(since_ms / 1000, UTC).isoformat() if since_ms else "",
        clock=numerals.clock(since_ms, now_ms).partition(".")[0] if since_ms else "",
        is_blank=is_blank,
        host=of_broker.host if of_broker else None,
        pid=of_broker.pid if of_broker else None,
        waiting_acts=waiting_acts if of_broker else 0,
    )


def _rendered(
    troubles: Mapping[Trouble, int | None],
    *,
    now_ms: int,
    state: Chrome | None = None,
    waiting_acts: int = 0,
) -> Notices:
    notices = [
        _notice(trouble, since_ms=since_ms, now_ms=now_ms, state=state, waiting_acts=waiting_acts)
        for trouble, since_ms in troubles.items()
    ]
    old = [each.since_ms for each in notices if each.words.effects and each.since_ms]
    return Notices(
        html=_html(notices, now_ms=now_ms),
        effects=tuple(effects_of(troubles)),
        since_ms=min(old, default=None),
    )


def _html(notices: list[_Notice], *, now_ms: int) -> SafeString:
    if not notices:
        return SafeString("")
    return render_to_string("console/notices.html", {"notices": notices, "now_ms": now_ms})
