"""One policy and the values that it accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.core.errors import BrokerError
from vela.wire.errors import InvalidQuantity
from vela.wire.quantities import read_length_ms, read_size_bytes, write_length, write_size

__all__ = ["MOST", "PolicyField", "PolicyInvalid", "PolicyLevel", "PolicyUnit", "PolicyValue"]

PolicyValue = bool | int | str

MOST: Final = 2**53 - 1  # Largest whole number that all JSON readers read exactly
_NO_LIMIT: Final = ("infinite", "no limit", "never")
_NARROW_SPACE: Final = "\u202f"  # The console separates groups of three digits with this space
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")


class PolicyInvalid(BrokerError):
    """A policy or its value is not valid."""

    code = "MetadataError"


class PolicyLevel(StrEnum):
    """The kind of object for which a policy is set."""

    NAMESPACE = "namespace"
    TOPIC = "topic"


class PolicyUnit(StrEnum):
    """The unit of a policy's number."""

    LENGTH = "milliseconds"
    SIZE = "bytes"
    COUNT = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyField:
    """The definition of one policy."""

    name: str
    kind: type[bool | int | StrEnum]
    says: str  # Explanation for operators
    unit: PolicyUnit
    least: int
    most: int
    named: Mapping[int, str]  # Words for special numbers, such as "never" for 0
    levels: frozenset[PolicyLevel]

    @property
    def takes(self) -> str:
        """The accepted values in words."""
        if self.kind is bool:
            return "true or false"
        if issubclass(self.kind, StrEnum):
            return "one of " + ", ".join(self.kind)
        what = {
            PolicyUnit.LENGTH: "a length of time such as 90s, 1h or 7d, or a whole number of milliseconds",
            PolicyUnit.SIZE: "a size such as 512MiB or 10GB, or a whole number of bytes",
            PolicyUnit.COUNT: "a whole number",
        }[self.unit]
        words = "".join(f"; {value} means {word}" for value, word in self.named.items())
        return f"{what} from {self.least} to {self.most}{words}"

    def check(self, value: object) -> PolicyValue:
        """Return the value. Raises PolicyInvalid if the policy does not accept the value."""
        if self.kind is bool:
            if isinstance(value, bool):
                return value
        elif issubclass(self.kind, StrEnum):
            if isinstance(value, str) and value in list(self.kind):
                return str(value)
        elif isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return value
        raise PolicyInvalid(f"policy {self.name} is {value!r}: it takes {self.takes}")

    def parse(self, text: str) -> PolicyValue:
        """Read a value that a person wrote. Raises PolicyInvalid if the policy does not accept the value."""
        text = text.strip()
        if self.kind is bool:
            return self.check({"true": True, "false": False}.get(text.lower(), text))
        if issubclass(self.kind, StrEnum):
            return self.check(text)
        return self.check(self._number(text))

    def words(self, value: PolicyValue) -> str:
        """Return a value as text for people. `parse` accepts this text."""
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, int):
            return str(value)
        if value in self.named:
            return self.named[value]
        match self.unit:
            case PolicyUnit.LENGTH:
                return write_length(value)
            case PolicyUnit.SIZE:
                return write_size(value)
        return str(value)

    def _number(self, text: str) -> int | str:
        """Return the number that `text` stands for, or a text that `check` refuses."""
        text = text.replace(_NARROW_SPACE, "")
        named = {word: value for value, word in self.named.items()}
        if (value := named.get(text.lower())) is not None:
            return value
        if text.lower() == "infinite":
            return next((value for word, value in named.items() if word in _NO_LIMIT), text)
        if _WHOLE.fullmatch(text):
            return int(text)
        try:
            match self.unit:
                case PolicyUnit.LENGTH:
                    return read_length_ms(text)
                case PolicyUnit.SIZE:
                    return read_size_bytes(text)
        except InvalidQuantity:
            return text
        return text
