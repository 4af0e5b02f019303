"""Store a cursor move that has been made in memory, or take the move back.

An act is a change that the broker records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.cursor.state import CursorState
from broker.storage.acts import acts as store

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.log.topic_log import TopicLog
    from broker.storage.connection import Connection
    from broker.subscription.machine.state import State
    from broker.subscription.runner import SubscriptionRunner

__all__ = ["StagedMove"]


class StagedMove:
    """A move that has changed the cursor in memory and is not stored yet."""

    def __init__(
        self,
        runner: SubscriptionRunner,
        state: State,
        before: CursorState,
        place_before: tuple[Position, Position] | None,
    ) -> None:
        self._runner = runner
        self._state = state
        self._before = before
        self._place_before = place_before
        self._rewinds = state.rewinds
        self.after = state.cursor.snapshot()
        self.recorded = state.cursor.overlay_since(before)

    @property
    def log(self) -> TopicLog:
        """The log of the topic."""
        return self._runner.log

    async def store(
        self, connection: Connection, owner_epoch: int, *, act_id: int, result: str, undo_window_s: int
    ) -> bool:
        """Store the cursor's new state, its old state for an undo, and the result of the act.

        Returns False if another broker has taken over the topic, or if the subscription was deleted.
        """
        return await store.apply_to_cursor(
            connection,
            topic_id=self._runner.log.topic_id,
            owner_epoch=owner_epoch,
            subscription_id=self._runner.subscription_id,
            state=self.after,
            before=self._before,
            act_id=act_id,
            result=result,
            undo_window_s=undo_window_s,
            passed=self.recorded,
        )

    def take_back(self) -> None:
        """Restore the cursor in memory."""
        state = self._state
        state.cursor.restore(self._before)
        state.unstored_place = self._place_before
        # Since the move, a redelivery or a Failover switch may have rewound the read position.
        if state.rewinds != self._rewinds:
            state.read_position = state.read_start()

    def abandon(self) -> None:
        """Fence the topic, because nobody knows whether the cancelled move was stored.

        Otherwise a flush could store the moved cursor, but not the act.
        """
        self._runner.log.fence("the broker stopped while a cursor was being moved")
