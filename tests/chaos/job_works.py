"""What each job does while `tests.chaos.jobs` kills it, and what must be true after every attempt."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psycopg

import vela as client_of_vela
from pipeline.checksum import Checksum, message_digest
from pipeline.jobs.files import MANIFEST
from pipeline.jobs.replay import FROM_PROPERTY, REPLAYS_PROPERTY
from tests.support.vela import VelaProcess

__all__ = ["WORKS", "Situation", "Work", "checksum_of", "export_command", "publish"]

_KEYS: Final = 100
_MESSAGES_PER_S: Final = "20000"  # slow enough for kills to find a job that publishes
_OF_HOURS: Final = (
    "SELECT coalesce(sum(h.messages), 0) FROM vela_insight_hour h JOIN vela_topic t ON t.id = h.topic_id"
    " WHERE t.name = %s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A running Vela with a topic, and the folder of the jobs' files."""

    vela: VelaProcess
    client: client_of_vela.Client
    source: str
    published: Checksum  # in `source`
    folder: Path
    format: str
    exported: str  # the folder of an export of `source` that ended well


class Work(Protocol):
    """A job with its options, and what it must have done."""

    def command(self) -> tuple[str, ...]:
        """Return the job and its options for the next attempt."""

    def check(self, *, is_done: bool) -> None:
        """Fail if an attempt left anything wrong or, if it ended well, if anything is missing."""


class _Export:
    """Exports under one name until there is a folder of that name, then under the next."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._number = 0

    def command(self) -> tuple[str, ...]:
        return export_command(self._situation.source, self._situation.format, self._target.name)

    def check(self, *, is_done: bool) -> None:
        if not self._target.exists():
            assert not is_done
            return
        manifest = json.loads((self._target / MANIFEST).read_text(encoding="utf-8"))
        assert manifest["checksum"] == str(self._situation.published), f"{self._target} has other messages"
        left = [path.name for path in self._situation.folder.iterdir() if path.name.startswith(".")]
        assert left == [], "files of killed exports are left"
        self._number += 1

    @property
    def _target(self) -> Path:
        return self._situation.folder / f"copy-{self._number}"


class _Import:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._target = _new_topic(situation, "imported")

    def command(self) -> tuple[str, ...]:
        options = ("--from", self._situation.exported, "--messages-per-s", _MESSAGES_PER_S)
        return ("import", "--topic", self._target, *options)

    def check(self, *, is_done: bool) -> None:
        if is_done:
            _require_equal(self._situation, self._target)


class _Replay:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._target = _new_topic(situation, "replayed")

    def command(self) -> tuple[str, ...]:
        options = ("--limit", "10000000", "--messages-per-s", _MESSAGES_PER_S, "--preview", "false")
        # A worker gives the runs that continue a killed one its id, and a terminal's user gives them a name.
        return (
            *("replay", "--topic", self._situation.source, "--to", self._target, *options),
            *("--write-id", "soak"),
        )

    def check(self, *, is_done: bool) -> None:
        if is_done:
            _require_equal(self._situation, self._target)


class _Insights:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    def command(self) -> tuple[str, ...]:
        return ("insights", "--topic", self._situation.source)

    def check(self, *, is_done: bool) -> None:
        """Forget the hours too, so that the next attempt has to store them again."""
        with psycopg.connect(self._situation.vela.database_url) as connection:
            row = connection.execute(_OF_HOURS, (self._situation.source,)).fetchone()
            connection.execute("DELETE FROM vela_insight_hour")
        assert row is not None
        assert row[0] == self._situation.published.messages or (row[0] == 0 and not is_done), row[0]


class _Compact:
    """Compacts a topic that grows with every attempt."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._topic = _new_topic(situation, "compacted")
        self._grown = situation.published.messages // 5
        self._latest: dict[str, bytes] = {}
        self._published = 0

    def command(self) -> tuple[str, ...]:
        numbers = range(self._published, self._published + self._grown)
        self._published = numbers.stop
        self._latest |= publish(self._situation.client, self._topic, numbers)
        return ("compact", "--topic", self._topic)

    def check(self, *, is_done: bool) -> None:
        read = _read(self._situation.client, self._topic, is_compacted=True)
        assert {str(each.partition_key()): each.data() for each in read} == self._latest
        assert len(read) == len(self._latest) or not is_done, (
            f"{len(read)} messages of {len(self._latest)} keys"
        )


WORKS: Final[Mapping[str, Callable[[Situation], Work]]] = {
    "export": _Export,
    "import": _Import,
    "replay": _Replay,
    "insights": _Insights,
    "compact": _Compact,
}


def export_command(topic: str, format_: str, folder: str) -> tuple[str, ...]:
    """Return an export's options."""
    return ("export", "--topic", topic, "--format", format_, "--to", folder)


def publish(client: client_of_vela.Client, topic: str, numbers: range) -> dict[str, bytes]:
    """Publish a message for each number, in batches, with _KEYS keys. Return each key's latest value."""
    latest: dict[str, bytes] = {}
    producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    for number in numbers:
        key, value = f"k{number % _KEYS}", b"%d %s" % (number, secrets.token_bytes(20))
        producer.send_async(value, None, partition_key=key)
        latest[key] = value
    producer.flush()
    producer.close()
    return latest


def checksum_of(client: client_of_vela.Client, topic: str) -> Checksum:
    """Return the checksum of a topic as clients read it, without what a replay adds to its messages."""
    return Checksum.of_digests(
        message_digest(each.data(), str(each.partition_key()).encode(), _own_properties(each), 0)
        for each in _read(client, topic)
    )


def _own_properties(message: client_of_vela.Message) -> dict[str, str]:
    return {
        name: value
        for name, value in message.properties().items()
        if name not in (FROM_PROPERTY, REPLAYS_PROPERTY)
    }


def _new_topic(situation: Situation, name: str) -> str:
    topic = f"{situation.source}-{name}"
    situation.client.create_producer(topic).close()
    return topic


def _require_equal(situation: Situation, topic: str) -> None:
    stored = checksum_of(situation.client, topic)
    assert stored == situation.published, f"published {situation.published}, and {topic} has {stored}"


def _read(
    client: client_of_vela.Client, topic: str, *, is_compacted: bool = False
) -> list[client_of_vela.Message]:
    found = []
    with client.create_reader(
        topic, client_of_vela.MessageId.earliest, is_read_compacted=is_compacted
    ) as reader:
        while reader.has_message_available():
            found.append(reader.read_next(60_000))
    return found
