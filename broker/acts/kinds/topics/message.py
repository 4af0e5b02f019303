"""The parameters of the act `publish`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from broker.acts.kinds.parameters import ActInvalid, Rule
from vela.wire.entry import encode_single

__all__ = ["MOST_PAYLOAD_BYTES", "OF_MESSAGE", "NewMessage"]

MOST_PAYLOAD_BYTES: Final = 1024 * 1024
_MOST_CHARACTERS: Final = 4 * (MOST_PAYLOAD_BYTES // 3 + 1)  # Length of the largest payload in base64
_MOST_LABEL_BYTES: Final = 64 * 1024
_CENTURY_MS: Final = 100 * 366 * 24 * 3600 * 1000
_LATEST_MS: Final = 253_402_300_799_999  # End of the year 9999
OF_MESSAGE: Final = frozenset(
    ("value", "encoding", "key", "key_encoding", "ordering_key", "properties", "event_time_ms")
)
"""The parameters that never appear in the act log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """One message to publish."""

    value: Annotated[str, Rule("payload, at most 1 MiB", most_characters=_MOST_CHARACTERS)] = ""
    encoding: Annotated[
        Literal["text", "json", "base64"], Rule("the encoding of value; json: value must be JSON")
    ] = "text"
    null_value: Annotated[
        bool,
        Rule("publish no value instead of an empty one; both remove the key from a compacted topic"),
    ] = False
    key: Annotated[str | None, Rule("key; it chooses the partition", most_characters=_MOST_LABEL_BYTES)] = (
        None
    )
    key_encoding: Annotated[Literal["text", "base64"], Rule("the encoding of key")] = "text"
    ordering_key: Annotated[str | None, Rule("ordering key, as base64")] = None
    properties: Annotated[Mapping[str, str], Rule("properties", most_characters=_MOST_LABEL_BYTES)] = field(
        default_factory=dict
    )
    event_time_ms: Annotated[int | None, Rule("event time, ms since 1970", least=1, most=_LATEST_MS)] = None
    deliver_after_ms: Annotated[
        int | None,
        Rule(
            "deliver it to Shared and Key_Shared subscriptions only this long after apply",
            least=1,
            most=_CENTURY_MS,
        ),
    ] = None
    deliver_at_ms: Annotated[
        int | None,
        Rule(
            "deliver it to Shared and Key_Shared subscriptions only at this time, ms since 1970",
            least=1,
            most=_LATEST_MS,
        ),
    ] = None
    partition: Annotated[
        int | None, Rule("the partition to publish to; by default the key chooses one", least=0, most=9_999)
    ] = None
    copy_of: Annotated[
        str | None, Rule("the message that this one repeats, as topic and message id; for the act log only")
    ] = None

    def __post_init__(self) -> None:
        if len(self.payload) > MOST_PAYLOAD_BYTES:
            raise ActInvalid(
                f"value has {len(self.payload)} bytes: an act publishes at most {MOST_PAYLOAD_BYTES}"
            )
        if self.null_value and self.value:
            raise ActInvalid("use value or null_value, not both")
        if self.deliver_after_ms is not None and self.deliver_at_ms is not None:
            raise ActInvalid("use deliver_after_ms or deliver_at_ms, not both")
        if self.key is not None and self.key_encoding == "base64":
            _decoded("key", self.key)
        if self.ordering_key is not None:
            _decoded("ordering_key", self.ordering_key)
        labels = [self.key or "", *self.properties, *self.properties.values()]
        if (size := sum(len(each.encode()) for each in labels)) > _MOST_LABEL_BYTES:
            raise ActInvalid(f"key and properties have {size} bytes: the limit is {_MOST_LABEL_BYTES}")

    @property
    def payload(self) -> bytes:
        """Return the decoded value. Raises ActInvalid if `value` does not match `encoding`."""
        if self.encoding == "base64":
            return _decoded("value", self.value)
        if self.encoding == "json" and self.value:
            try:
                json.loads(self.value)
            except (ValueError, RecursionError) as error:
                raise ActInvalid(f"value is not JSON: {error}") from error
        return self.value.encode()

    def to_entry(self) -> bytes:
        """Return the message as an entry."""
        return encode_single(
            producer_name="",
            sequence_id=0,
            publish_time_ms=0,
            payload=self.payload,
            properties=self.properties,
            key=self.key,
            key_b64=self.key is not None and self.key_encoding == "base64",
            event_time_ms=self.event_time_ms or 0,
            ordering_key=None if self.ordering_key is None else _decoded("ordering_key", self.ordering_key),
            null_value=self.null_value,
        )


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ActInvalid(f"{name} is not base64: {error}") from error
