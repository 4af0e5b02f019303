"""Entry filters and interceptors that tests name in settings; what they are told stays in class attributes."""

from __future__ import annotations

from typing import ClassVar

from broker.plugins import FilteredEntry, SentEntry, Verdict
from vela.wire.entry import decode_messages

__all__ = ["Broken", "ByPayload", "Failing", "Recording"]


class ByPayload:
    """`reject…` is rejected, `later…` put off until `is_later` is taken away, `raise…` raises; the rest is accepted."""

    is_later: ClassVar[bool] = True
    asked: ClassVar[list[FilteredEntry]] = []

    def verdict(self, entry: FilteredEntry) -> Verdict:
        """See above."""
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
    """Remembers what is sent."""

    seen: ClassVar[list[SentEntry]] = []

    def sending(self, entry: SentEntry) -> None:
        """Remember."""
        self.seen.append(entry)


class Failing:
    """Fails on everything."""

    def sending(self, entry: SentEntry) -> None:
        """Fail."""
        raise ValueError(f"cannot look at {entry.ledger_id}:{entry.entry_id}")


class Broken:
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no configuration")
