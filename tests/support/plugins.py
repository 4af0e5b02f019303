"""Entry filters and interceptors that tests name in settings. They record their calls in class attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.plugins import FilteredEntry, SentEntry, Verdict
from vela.wire.entry import decode_messages

__all__ = ["Broken", "ByPayload", "Failing", "Recording"]


class ByPayload:
    """A filter that rejects the payloads `reject…`, and while `is_later` delays `later…` and raises for `raise…`.

    It accepts all others.
    """

    is_later: ClassVar[bool] = True
    asked: ClassVar[list[FilteredEntry]] = []

    def verdict(self, entry: FilteredEntry) -> Verdict:
        """Decide by the payload."""
        self.asked.append(entry)
        payload = decode_messages(entry.data, max_message_bytes=1 << 20)[0].payload
        if payload.startswith(b"reject"):
            return Verdict.REJECT
        if payload.startswith((b"later", b"raise")) and ByPayload.is_later:
            if payload.startswith(b"raise"):
                raise ValueError("a fault in the project's code")
            return Verdict.RESCHEDULE
        return Verdict.ACCEPT


class Recording:
    """An interceptor that records what is sent."""

    seen: ClassVar[list[SentEntry]] = []

    def sending(self, entry: SentEntry) -> None:
        """Record the entry."""
        self.seen.append(entry)


@dataclass
class Failing:
    """An interceptor that fails on every entry, and has no hash, as a plain dataclass."""

    def sending(self, entry: SentEntry) -> None:
        """Raise ValueError."""
        raise ValueError(f"cannot look at {entry.ledger_id}:{entry.entry_id}")


class Broken:
    """A class that cannot be instantiated."""

    def __init__(self) -> None:
        raise RuntimeError("no configuration")
