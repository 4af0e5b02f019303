"""The topic lists that one binary connection watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.errors import BrokerError, ServiceNotReady, TooManyTopicWatchers
from broker.core.topic_pattern import TopicPattern
from broker.doors.binary.wire import events
from broker.doors.server_errors import server_error

if TYPE_CHECKING:
    from broker.doors.binary.peer import Peer
    from broker.doors.binary.request_runner import RequestRunner
    from broker.doors.ports import LookupPort, TopicListPort

__all__ = ["TopicWatchers"]


class TopicWatchers:
    """Handles WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE, and sends the updates."""

    def __init__(self, broker: LookupPort, peer: Peer, requests: RequestRunner) -> None:
        self._broker = broker
        self._peer = peer
        self._requests = requests
        self._watchers: dict[int, _Watcher] = {}

    def on_watch(self, event: events.WatchTopicList) -> None:
        """Watch a topic list.

        Clients repeat WATCH_TOPIC_LIST to check their lists, so replace a watcher that has the same id.
        """
        known = self._watchers.pop(event.watcher_id, None)
        if known is not None:
            known.close()
        most = self._broker.settings.max_topic_watchers_per_connection
        if most and len(self._watchers) >= most:
            self._refuse_another(event, most)
            return
        watcher = self._watchers[event.watcher_id] = _Watcher(self._peer, event.watcher_id)
        self._requests.run(
            event, self._watch(watcher, event), lambda error: self._refused(watcher, event, error)
        )

    async def _watch(self, watcher: _Watcher, event: events.WatchTopicList) -> None:
        found = await self._broker.watch_topics(
            event.namespace, TopicPattern(event.pattern), watcher.list_changed
        )
        await self._peer.room()
        if not watcher.begin(found, event):
            raise ServiceNotReady(f"watcher {event.watcher_id} was closed while it was being opened")

    def _refuse_another(self, event: events.WatchTopicList, most: int) -> None:
        setting = "VELA_MAX_TOPIC_WATCHERS_PER_CONNECTION"
        self._broker.connections.reached(setting, "refused another topic watcher", str(self._peer))
        error = TooManyTopicWatchers(
            f"the connection watches {most} topic lists, the most that {setting} allows: close some, or use more"
            " connections"
        )
        self._requests.count_refusal(event, str(error))
        self._peer.engine.send_error(event.request_id, server_error(error), str(error))

    def _refused(self, watcher: _Watcher, event: events.WatchTopicList, error: BrokerError) -> None:
        if self._watchers.get(event.watcher_id) is watcher:
            del self._watchers[event.watcher_id]
        watcher.close()
        self._peer.engine.send_error(event.request_id, server_error(error), str(error))

    def on_close(self, event: events.CloseTopicWatcher) -> None:
        """Close a watcher. Answer SUCCESS even if the id is unknown."""
        watcher = self._watchers.pop(event.watcher_id, None)
        if watcher is not None:
            watcher.close()
        self._peer.engine.send_success(event.request_id)

    def writable_again(self) -> None:
        """Send the waiting updates."""
        for watcher in list(self._watchers.values()):
            watcher.tell()

    def lost(self) -> None:
        """Close every watcher after the connection is lost."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers.values():
            watcher.close()


class _Watcher:
    """One watched topic list."""

    def __init__(self, peer: Peer, watcher_id: int) -> None:
        self._peer = peer
        self._watcher_id = watcher_id
        self._list: TopicListPort | None = None
        self._is_closed = False
        # Changes that are not sent yet
        self._added: frozenset[str] = frozenset()
        self._removed: frozenset[str] = frozenset()

    def begin(self, found: TopicListPort, event: events.WatchTopicList) -> bool:
        """Answer with the current list. If the watcher is closed, return False without an answer."""
        if self._is_closed:
            found.detach()
            return False
        self._list = found
        self._added = self._removed = frozenset()  # The answer below has the whole list.
        self._peer.engine.send_watch_success(
            event.request_id, self._watcher_id, found.names, known_hash=event.topics_hash
        )
        return True

    def list_changed(self, added: frozenset[str], removed: frozenset[str]) -> None:
        self._added, self._removed = (
            (self._added - removed) | (added - self._removed),
            (self._removed - added) | (removed - self._added),
        )
        self.tell()

    def tell(self) -> None:
        if self._list is None or not (self._added or self._removed) or not self._peer.is_writable():
            return
        self._peer.engine.send_watch_update(
            self._watcher_id, added=self._added, removed=self._removed, names=self._list.names
        )
        self._added = self._removed = frozenset()
        self._peer.written()

    def close(self) -> None:
        self._is_closed = True
        if self._list is not None:
            self._list.detach()
            self._list = None
