"""The time windows of charts.

The numbers of a chart are stored in buckets. The length of a bucket is its resolution: 10 s, 1 minute, 10 minutes or
1 hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext_lazy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = [
    "RESOLUTIONS_S",
    "WINDOWS",
    "Frame",
    "Window",
    "frame_around",
    "frame_of",
    "spans",
    "unread",
    "window_of",
]

RESOLUTIONS_S: Final = (10, 60, 600, 3600)
_WRITTEN_MS: Final = 2_000  # A bucket counts as written this long after its end
_MOST_BUCKETS: Final = 1_500
_STEPS_AROUND: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A length of time that a chart shows, divided into steps."""

    name: str
    words: StrOrPromise
    step_s: int
    steps: int
    coarsest_s: int  # Length of the longest buckets that the chart reads


WINDOWS: Final = {
    each.name: each
    for each in (
        Window(name="1h", words=gettext_lazy("1 hour"), step_s=10, steps=360, coarsest_s=10),
        Window(name="6h", words=gettext_lazy("6 hours"), step_s=60, steps=360, coarsest_s=60),
        Window(name="24h", words=gettext_lazy("24 hours"), step_s=600, steps=144, coarsest_s=600),
        Window(name="30d", words=gettext_lazy("30 days"), step_s=7200, steps=360, coarsest_s=3600),
    )
}
# Sums over several topics have no buckets shorter than a minute.
_HOUR_OF_SUMS: Final = Window(name="1h", words=gettext_lazy("1 hour"), step_s=60, steps=60, coarsest_s=60)


def window_of(name: str, *, is_sum: bool = False) -> Window:
    """Return the window with this name, or the window of one hour if the name is unknown."""
    window = WINDOWS.get(name, WINDOWS["1h"])
    return _HOUR_OF_SUMS if is_sum and window.step_s < _HOUR_OF_SUMS.step_s else window


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A window placed in time, with a beginning and an end."""

    window: Window
    from_ms: int
    to_ms: int  # Never later than the end of the newest written bucket

    @property
    def step_ms(self) -> int:
        """The length of one step."""
        return self.window.step_s * 1000

    @property
    def until_ms(self) -> int:
        """The end of the last step, which may be in the future."""
        return self.from_ms + self.window.steps * self.step_ms


def frame_around(at_ms: int, step_s: int, resolution_s: int, now_ms: int) -> Frame:
    """Return the frame of 60 steps around a moment in the past.

    `resolution_s` is the length of the longest buckets to read. A step begins where the bucket of this moment begins. A
    step covers whole buckets, so it may be longer than `step_s`.
    """
    step_s = -(-step_s // resolution_s) * resolution_s
    window = Window(name="past", words="", step_s=step_s, steps=_STEPS_AROUND, coarsest_s=resolution_s)
    from_ms = _begin(at_ms, resolution_s) - _STEPS_AROUND // 2 * step_s * 1000
    newest_ms = _begin(now_ms - _WRITTEN_MS, RESOLUTIONS_S[0])
    return Frame(window=window, from_ms=from_ms, to_ms=min(from_ms + window.steps * step_s * 1000, newest_ms))


def frame_of(window: Window, now_ms: int) -> Frame:
    """Return the frame that ends with the newest bucket."""
    to_ms = _begin(now_ms - _WRITTEN_MS, RESOLUTIONS_S[0])
    last_ms = _begin(to_ms - 1, window.step_s)
    return Frame(window=window, from_ms=last_ms - (window.steps - 1) * window.step_s * 1000, to_ms=to_ms)


def spans(frame: Frame, until_ms: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return the half-open range of time to read at each resolution.

    `until_ms` maps each resolution to the time up to which its buckets are complete.
    """
    found = {}
    from_ms = frame.from_ms
    for resolution_s in reversed(RESOLUTIONS_S):
        if resolution_s > frame.window.coarsest_s:
            found[resolution_s] = (from_ms, from_ms)
            continue
        is_finest = resolution_s == RESOLUTIONS_S[0]
        to_ms = frame.to_ms if is_finest else min(max(until_ms.get(resolution_s, 0), from_ms), frame.to_ms)
        most_ms = _MOST_BUCKETS * resolution_s * 1000
        found[resolution_s] = (_begin(max(from_ms, to_ms - most_ms), resolution_s), to_ms)
        from_ms = to_ms
    return found


def unread(frame: Frame, until_ms: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the parts of the frame that `spans` leaves out."""
    found = []
    read_ms = frame.from_ms
    for from_ms, to_ms in spans(frame, until_ms).values():
        if from_ms > read_ms:
            found.append((read_ms, from_ms))
        read_ms = max(read_ms, to_ms)
    return tuple(found)


def _begin(time_ms: int, resolution_s: int) -> int:
    return time_ms - time_ms % (resolution_s * 1000)
