"""Words for problems of the console, the database, the broker and Celery."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from django.utils.translation import gettext_noop

from console.words.subscriptions import Tone

__all__ = [
    "SILENT_AFTER_MS",
    "TICKS_MISSED",
    "WITHOUT_CELERY",
    "WORDS",
    "PartHealth",
    "Signs",
    "Trouble",
    "TroubleWords",
    "effects_of",
    "health_of",
    "troubles_of",
]

SILENT_AFTER_MS: Final = 5000  # The broker writes its heartbeat every second
TICKS_MISSED: Final = 5


class Trouble(StrEnum):
    """A problem that pages report."""

    CONSOLE = "console"
    DATABASE = "database"
    BROKER_SILENT = "broker-silent"
    BROKER_STOPPED = "broker-stopped"
    NO_BROKER = "no-broker"
    BEAT = "beat"
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Last signs of life and the current time, by the database's clock."""

    now_ms: int
    host: str | None
    pid: int | None
    seen_ms: int | None  # The broker's last sign of life
    stopped_ms: int | None  # None unless the broker stopped cleanly
    beat_ms: int | None
    worker_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleWords:
    """The title, the meaning and the effects of a trouble.

    With the effect `unsure`, states are unknown and the broker's numbers are old. With the effect `unread`, all numbers
    are old.
    """

    title: str
    meaning: str
    effects: tuple[str, ...] = ()
    when: str = gettext_noop("since")
    runbook: str = ""


WITHOUT_CELERY: Final = gettext_noop(
    "The broker still delivers, redelivers, expires and frees messages and applies backlog quotas by its own"
    " timer, unless VELA_WHEEL is 0. Alerts, the pipeline and the long-term history of the charts stop,"
    " plans do not expire, and rows of dead clients stay."
)

WORDS: Final[Mapping[Trouble, TroubleWords]] = {
    Trouble.CONSOLE: TroubleWords(
        title=gettext_noop("This page cannot reach the console"),
        meaning=gettext_noop(
            "All numbers are from that time. The page continues automatically when the console answers."
        ),
        effects=("unsure", "unread"),
    ),
    Trouble.DATABASE: TroubleWords(
        title=gettext_noop("The database does not answer"),
        meaning=gettext_noop(
            "All numbers are from that time. Until the database answers, the broker stores nothing and you"
            " cannot request acts."
        ),
        effects=("unsure", "unread"),
        runbook="database-away",
    ),
    Trouble.BROKER_SILENT: TroubleWords(
        title=gettext_noop("The broker is silent"),
        meaning=gettext_noop(
            "States are unknown, grey numbers are from that time, and acts wait until the broker answers."
        ),
        effects=("unsure",),
        runbook="no-broker",
    ),
    Trouble.BROKER_STOPPED: TroubleWords(
        title=gettext_noop("The broker was stopped"),
        meaning=gettext_noop(
            "States are unknown, grey numbers are from that time, and acts wait until a broker starts."
        ),
        effects=("unsure",),
        when=gettext_noop("at"),
        runbook="no-broker",
    ),
    Trouble.NO_BROKER: TroubleWords(
        title=gettext_noop("No broker has run on this database yet"),
        meaning=gettext_noop("Acts wait until a broker starts."),
        effects=("unsure",),
        runbook="no-broker",
    ),
    Trouble.BEAT: TroubleWords(
        title=gettext_noop("Celery beat is silent"), meaning=WITHOUT_CELERY, runbook="timers-silent"
    ),
    Trouble.WORKER: TroubleWords(
        title=gettext_noop("Celery's tick worker is silent"), meaning=WITHOUT_CELERY, runbook="timers-silent"
    ),
}


def troubles_of(signs: Signs, *, tick_ms: int) -> dict[Trouble, int | None]:
    """Return the current troubles, each with the time of the last sign of life.

    BROKER_STOPPED has the time of the stop instead. The time is None if there was never a sign of life.

    While Celery beat is silent, the worker is not checked, because beat sends the worker no tasks.
    """
    found: dict[Trouble, int | None] = {}
    if signs.seen_ms is None:
        found[Trouble.NO_BROKER] = None
    elif signs.stopped_ms is not None:
        found[Trouble.BROKER_STOPPED] = signs.stopped_ms
    elif signs.now_ms - signs.seen_ms > SILENT_AFTER_MS:
        found[Trouble.BROKER_SILENT] = signs.seen_ms
    oldest_tick_ms = signs.now_ms - max(SILENT_AFTER_MS, TICKS_MISSED * tick_ms)
    if (signs.beat_ms or 0) < oldest_tick_ms:
        found[Trouble.BEAT] = signs.beat_ms
    elif (signs.worker_ms or 0) < oldest_tick_ms:
        found[Trouble.WORKER] = signs.worker_ms
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """The health of one process, in one word."""

    part: str
    word: str
    tone: Tone
    runbook: str = ""


def health_of(troubles: Collection[Trouble]) -> list[PartHealth]:
    """Return the health of the broker, Celery beat and the Celery worker that runs the periodic tasks."""
    health = []
    for part, well, words in _HEALTH:
        trouble = next((each for each in words if each in troubles), None)
        if trouble is None:
            health.append(PartHealth(part=part, word=well, tone="good"))
        else:
            word, tone = words[trouble]
            health.append(PartHealth(part=part, word=word, tone=tone, runbook=WORDS[trouble].runbook))
    return health


_Words: TypeAlias = Mapping[Trouble, tuple[str, Tone]]
_HEALTH: Final[tuple[tuple[str, str, _Words], ...]] = (
    (
        gettext_noop("Broker"),
        gettext_noop("runs"),
        {
            Trouble.BROKER_SILENT: (gettext_noop("silent"), "bad"),
            Trouble.BROKER_STOPPED: (gettext_noop("stopped"), "bad"),
            Trouble.NO_BROKER: (gettext_noop("never started"), "bad"),
        },
    ),
    (
        gettext_noop("Celery beat"),
        gettext_noop("ticks"),
        {Trouble.BEAT: (gettext_noop("silent"), "warn")},
    ),
    (
        gettext_noop("Tick worker"),
        gettext_noop("ticks"),
        {Trouble.WORKER: (gettext_noop("silent"), "warn"), Trouble.BEAT: (gettext_noop("unknown"), "calm")},
    ),
)


def effects_of(troubles: Iterable[Trouble]) -> list[str]:
    """Return the CSS classes for the body of a page."""
    return sorted({effect for trouble in troubles for effect in WORDS[trouble].effects})
