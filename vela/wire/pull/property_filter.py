"""Property filters: the part of SQL-92 that RocketMQ's consumers write, over a message's string properties.

An example is `a > 3 AND (b = 'x' OR c IS NULL)`. BETWEEN, IN, NOT, TRUE and FALSE work too. A comparison is unknown if
the property is absent, or is not a number where one is needed. Unknown is not a match (three-valued logic, as in SQL).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from vela.wire.errors import InvalidPull

__all__ = ["PropertyFilter", "parse_property_filter"]

MAX_FILTER_CHARACTERS: Final = 4096
_MAX_DEPTH: Final = 32
# A longer property is not read as a number. Trying to read one of 5 MB takes 20 ms, and a filter may try it 600 times.
_MAX_NUMBER_CHARACTERS: Final = 400

Properties: TypeAlias = Mapping[str, str]
PropertyFilter: TypeAlias = Callable[[Properties], bool]
_Truth: TypeAlias = Callable[[Properties], bool | None]
_Number: TypeAlias = int | float  # Python compares both exactly; with floats only, long ids would be rounded
_Value: TypeAlias = str | _Number | bool

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?\d+(?:\.\d+)?)|(?P<text>'(?:[^']|'')*')|(?P<name>[A-Za-z_$][\w$.]*)"
    r"|(?P<operator><>|>=|<=|[=<>(),]))"
)
_EXPECTED: Final = {"name": "the name of a property", "operator": "an operator"}
_WORDS: Final = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"})


def parse_property_filter(text: str) -> PropertyFilter:
    """Compile a filter. Raises InvalidPull if it is too long, nests too deeply or cannot be read."""
    if len(text) > MAX_FILTER_CHARACTERS:
        raise InvalidPull(f"filter has {len(text)} characters; at most {MAX_FILTER_CHARACTERS}")
    parser = _Parser(_tokens(text))
    truth = parser.any_of(0)
    parser.expect_end()
    return lambda properties: truth(properties) is True


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each token. The kind of a keyword is `word`, and its text is in upper case."""
    tokens: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidPull(
                f"filter: {text[at : at + 20].strip()!r} cannot be read: write properties, numbers and 'text'"
            )
        kind = match.lastgroup or ""
        value = match[kind]
        if kind == "name" and value.upper() in _WORDS:
            kind, value = "word", value.upper()
        tokens.append((kind, value))
        at = match.end()
    return tokens


class _Parser:
    """Recursive descent; a condition becomes a function from properties to true, false or unknown (None)."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def any_of(self, depth: int) -> _Truth:
        """Read alternatives joined by OR, which binds weakest."""
        if depth > _MAX_DEPTH:
            raise InvalidPull(f"filter: parentheses and NOT nest deeper than {_MAX_DEPTH}")
        parts = [self._all_of(depth)]
        while self._take("word", "OR"):
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else lambda properties: _or(parts, properties)

    def expect_end(self) -> None:
        """Raise InvalidPull if tokens are left."""
        if self._at < len(self._tokens):
            raise InvalidPull(
                f"filter: {self._tokens[self._at][1]!r} is found where the filter should end, or AND or OR follow"
            )

    def _all_of(self, depth: int) -> _Truth:
        parts = [self._not(depth)]
        while self._take("word", "AND"):
            parts.append(self._not(depth))
        return parts[0] if len(parts) == 1 else lambda properties: _and(parts, properties)

    def _not(self, depth: int) -> _Truth:
        if not self._take("word", "NOT"):
            return self._condition(depth)
        if depth > _MAX_DEPTH:
            raise InvalidPull(f"filter: parentheses and NOT nest deeper than {_MAX_DEPTH}")
        return _negated(self._not(depth + 1))

    def _condition(self, depth: int) -> _Truth:
        if self._take("operator", "("):
            inside = self.any_of(depth + 1)
            self._expect("operator", ")")
            return inside
        if self._take("word", "TRUE"):
            return lambda _: True
        if self._take("word", "FALSE"):
            return lambda _: False
        name = self._expect("name")
        if self._take("word", "IS"):
            is_not = self._take("word", "NOT")
            self._expect("word", "NULL")
            return lambda properties: (name in properties) is is_not
        if self._take("word", "NOT"):
            return _negated(self._range_or_choice(name))
        if self._peek() in (("word", "BETWEEN"), ("word", "IN")):
            return self._range_or_choice(name)
        operator = self._expect("operator")
        if operator not in _COMPARISONS:
            raise InvalidPull(f"filter: {name} must be compared: =, <>, <, <=, >, >=, BETWEEN, IN or IS NULL")
        return _comparison(name, operator, self._literal())

    def _range_or_choice(self, name: str) -> _Truth:
        if self._take("word", "BETWEEN"):
            low = self._literal()
            self._expect("word", "AND")
            bounds = [_comparison(name, ">=", low), _comparison(name, "<=", self._literal())]
            return lambda properties: _and(bounds, properties)
        self._expect("word", "IN")
        self._expect("operator", "(")
        choices = [_comparison(name, "=", self._literal())]
        while self._take("operator", ","):
            choices.append(_comparison(name, "=", self._literal()))
        self._expect("operator", ")")
        return lambda properties: _or(choices, properties)

    def _literal(self) -> _Value:
        kind, value = self._next()
        if kind == "number":
            return _number(value)
        if kind == "text":
            return value[1:-1].replace("''", "'")
        if (kind, value) in (("word", "TRUE"), ("word", "FALSE")):
            return value == "TRUE"
        raise _unexpected(kind, value, "a number, a 'text', TRUE or FALSE")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, kind: str, value: str) -> bool:
        if self._peek() != (kind, value):
            return False
        self._at += 1
        return True

    def _expect(self, kind: str, value: str | None = None) -> str:
        found_kind, found = self._next()
        if found_kind != kind or (value is not None and found != value):
            raise _unexpected(found_kind, found, value or _EXPECTED[kind])
        return found


def _unexpected(kind: str, text: str, expected: str) -> InvalidPull:
    found = "it ends" if kind == "end" else f"found {text!r}"
    return InvalidPull(f"filter: {found} where {expected} is expected")


_COMPARISONS: Final[dict[str, Callable[[int], bool]]] = {  # by the sign of value minus literal; 0 = equal
    "=": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def _number(text: str) -> _Number:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _comparison(name: str, operator: str, literal: _Value) -> _Truth:
    bound = None if isinstance(literal, str | bool) else literal
    if bound is None and operator not in ("=", "<>"):
        raise InvalidPull(f"filter: {name}: the operator {operator} takes a number")
    is_true = _COMPARISONS[operator]

    def truth(properties: Properties) -> bool | None:
        value = properties.get(name)
        if value is None:
            return None
        if bound is not None:
            if len(value) > _MAX_NUMBER_CHARACTERS:
                return None
            try:
                number = _number(value)
            except ValueError:
                return None
            return is_true((number > bound) - (number < bound)) if number == number else None  # NaN
        if isinstance(literal, str):
            return is_true(0 if value == literal else 1)
        wanted = str(literal).lower()
        return is_true(0 if len(value) == len(wanted) and value.lower() == wanted else 1)

    return truth


def _negated(part: _Truth) -> _Truth:
    def truth(properties: Properties) -> bool | None:
        found = part(properties)
        return None if found is None else not found

    return truth


def _or(parts: list[_Truth], properties: Properties) -> bool | None:
    found = [part(properties) for part in parts]
    return True if True in found else None if None in found else False


def _and(parts: list[_Truth], properties: Properties) -> bool | None:
    found = [part(properties) for part in parts]
    return False if False in found else None if None in found else True
