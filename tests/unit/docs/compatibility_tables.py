"""Make the tables of docs/reference/compatibility.md from the code's own tables.

After a change of a door, run `python -m tests.unit.docs.compatibility_tables`.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from config.environment import PROJECT_DIR

__all__ = ["NOT_SENT", "PAGE", "commands_not_sent", "page_with_tables"]

PAGE: Final = PROJECT_DIR / "docs" / "reference" / "compatibility.md"
_START: Final = "## Commands of the binary protocol\n"
_ANSWERS: Final = PROJECT_DIR / "broker" / "doors" / "binary" / "wire" / "answers"

_ONE_CLUSTER: Final = "there is one cluster, so no topic moves to another"
# Commands that Pulsar's brokers send and Vela's does not, by a pattern of their names.
NOT_SENT: Final = {
    "TOPIC_MIGRATED": _ONE_CLUSTER,
    ".*_TXN.*_RESPONSE|TC_CLIENT_CONNECT_RESPONSE|WATCH_TC_ASSIGNMENTS_UPDATE": "there are no transactions",
    "(WATCH_)?SCALABLE_TOPICS?_.*": "there are no scalable topics",
}

# The parameters of Pulsar's WebSocket API. The other parameters that the code reads are Vela's.
_OF_PULSAR: Final = {
    "producer": (
        "producerName",
        "initialSequenceId",
        "hashingScheme",
        "sendTimeoutMillis",
        "messageRoutingMode",
        "batchingEnabled",
        "batchingMaxMessages",
        "batchingMaxPublishDelay",
        "maxPendingMessages",
        "compressionType",
        "encryptionKeys",
    ),
    "consumer": (
        "subscriptionType",
        "subscriptionMode",
        "subscriptionInitialPosition",
        "receiverQueueSize",
        "consumerName",
        "priorityLevel",
        "ackTimeoutMillis",
        "negativeAckRedeliveryDelay",
        "maxRedeliverCount",
        "deadLetterTopic",
        "pullMode",
        "cryptoFailureAction",
    ),
    "consumer v3": ("topics", "topicsPattern"),
    "reader": ("messageId", "receiverQueueSize", "readerName", "cryptoFailureAction"),
}


class _Reads(dict[str, str]):
    """A query that records which parameters are read."""

    def __init__(self, given: dict[str, str]) -> None:
        super().__init__(given)
        self.names: dict[str, None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.names[key] = None
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.names[str(key)] = None
        return super().__contains__(key)


def _commands() -> Iterator[Sequence[str]]:
    from broker.doors.binary.wire.decoding import DECODERS, UNBUILT
    from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

    not_sent = dict(commands_not_sent())
    for name, number in sorted(BaseCommand.Type.items(), key=lambda each: each[1]):
        if number in UNBUILT:
            is_known = number in BaseCommand.DESCRIPTOR.fields_by_number
            yield name, "client", "refused" if is_known else "ignored", UNBUILT[number]
        elif number in DECODERS or number == BaseCommand.SEND:
            sender = "both" if name in ("PING", "PONG", "CLOSE_PRODUCER", "CLOSE_CONSUMER") else "client"
            yield name, sender, "done", ""
        else:
            reason = not_sent.get(name)
            yield name, "broker", "absent" if reason is not None else "done", reason or ""


def commands_not_sent() -> Iterator[tuple[str, str]]:
    """Yield the broker's commands that no module of `answers` mentions, each with its reason, or "" if it has none."""
    from broker.doors.binary.wire.decoding import DECODERS, UNBUILT
    from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

    source = "".join(path.read_text("utf-8") for path in sorted(_ANSWERS.glob("*.py")))
    for name, number in BaseCommand.Type.items():
        if number in DECODERS or number in UNBUILT or number == BaseCommand.SEND:
            continue
        if not re.search(rf"\b{name}\b", source):
            yield name, next((why for each, why in NOT_SENT.items() if re.fullmatch(each, name)), "")


def _sockets() -> Iterator[Sequence[str]]:
    from broker.conf import BrokerSettings
    from broker.doors.websocket.routes import ABSENT, socket_routes

    class _Broker:
        settings = BrokerSettings()

    for route in socket_routes(_Broker(), None):  # type: ignore[arg-type]  # the routes only pass them on
        pattern = str(route.pattern)
        if pattern.endswith("$") and "(?:/.*)?" not in pattern:
            path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", pattern).removesuffix("$")
            for each in ("", "v2/") if "(?:v2/)?" in path else ("",):
                yield f"`/{path.replace('(?:v2/)?', each)}`", "done", ""
    for path, reason in ABSENT.items():
        yield f"`/{path}/{{rest}}`", "absent", reason


def _parameters() -> Iterator[Sequence[str]]:
    from broker.doors.handshake_errors import HandshakeRefused
    from broker.doors.websocket.json.options import consumer_options, producer_options, reader_options
    from broker.doors.websocket.json.paths import requested_topics

    letters = {"maxRedeliverCount": "1", "retryEnable": "true"}
    readers: dict[str, tuple[Any, dict[str, str]]] = {
        "producer": (producer_options, {"batchingEnabled": "true"}),
        "consumer": (consumer_options, letters),
        "consumer v3": (requested_topics, {"topics": "a"}),
        "reader": (reader_options, {}),
    }
    for of, (read, given) in readers.items():
        query = _Reads(given)
        read(query)
        for name in dict.fromkeys((*_OF_PULSAR[of], *query.names)):
            if name not in _OF_PULSAR[of]:
                yield of, f"`{name}`", "done", "an extension"
            elif name not in query.names:
                yield of, f"`{name}`", "absent", ""
            elif name == "encryptionKeys":
                read({name: base64.b64encode(b'{"k": {"keyValue": ""}}').decode()})
                try:
                    read({name: "k"})
                except HandshakeRefused:
                    yield of, f"`{name}`", "done", "for a client that encrypts; names of keys are refused"
                else:
                    yield of, f"`{name}`", "done", ""
            else:
                yield of, f"`{name}`", "done", ""


def _requests() -> Iterator[Sequence[str]]:
    from broker.doors.admin.absent import ABSENT
    from broker.doors.admin.api import API
    from broker.doors.admin.operations import described

    for each in described(API):
        yield f"`{each.method} {each.path}`", "refused" if each.refused else "done", each.refused
    for line, reason in ABSENT.items():
        yield f"`{line}`", "absent", reason


def _table(heads: Sequence[str], lines: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |".replace("|  |", "| |")


def _tables() -> str:
    def lines() -> Iterator[str]:
        yield _START
        yield from _table(("command", "sent by", "state", "reason"), _commands())
        yield "\n## Paths of the WebSocket API\n"
        yield from _table(("path", "state", "reason"), _sockets())
        yield "\n## Parameters of the WebSocket API\n"
        yield from _table(("of", "parameter", "state", "reason"), _parameters())
        yield "\n## Requests over HTTP\n"
        yield from _table(("request", "state", "reason"), _requests())

    return "\n".join(lines()) + "\n"


def page_with_tables() -> str:
    """Return the page as it should be."""
    return PAGE.read_text("utf-8").partition(_START)[0] + _tables()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    PAGE.write_text(page_with_tables(), "utf-8")
