"""Read and check the options of the data source and the sink."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from pipeline.errors import InvalidOption
from vela.wire.errors import InvalidTopicName
from vela.wire.topic_name import TopicName

__all__ = ["OptionValues", "full_topic_name"]

_DATABASE_URL: Final = re.compile(r"postgres(ql)?://|\w+ *=")  # a URL, or libpq's keywords and values
_DIGITS: Final = re.compile(r"[0-9]+")
_MOST_DIGITS: Final = 100  # a number with more is too large for every option
_LEAST_TIME_MS: Final = 10**11  # in 1973; below it, the user has probably given seconds or a year
_TIME_DIGITS: Final = 14  # until the year 5138; today's time in microseconds has more


class OptionValues:
    """Spark's options. The case of names does not matter. Methods raise InvalidOption, which names the option."""

    def __init__(
        self, options: Mapping[str, str], names: Sequence[str], *, ignored: Sequence[str] = ()
    ) -> None:
        """Raises InvalidOption for an option that is in neither `names` nor `ignored`."""
        self._given = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in (*names, *ignored)}
        unknown = sorted(self._given.keys() - known)
        if unknown:
            raise InvalidOption(f"unknown option {unknown[0]!r}: the options are {', '.join(names)}")
        for name in names:
            if "\0" in self._given.get(name.lower(), ""):
                raise InvalidOption(f"option {name} contains a NUL character: remove it")

    def has(self, name: str) -> bool:
        """Return whether the option was given."""
        return name.lower() in self._given

    def text(self, name: str, default: str = "") -> str:
        """Return the option's text without white space around it."""
        return self._given.get(name.lower(), default).strip()

    def required(self, name: str, example: str) -> str:
        """Return the option's text, which must not be empty."""
        value = self.text(name)
        if not value:
            raise InvalidOption(
                f'option {name} is missing: set it, for example .option("{name}", "{example}")'
            )
        return value

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number from `least` to `most`."""
        text = self.text(name, str(default))
        # Python refuses to read a number of thousands of digits.
        is_number = _DIGITS.fullmatch(text) and len(text) <= _MOST_DIGITS
        if not (is_number and least <= int(text) <= most):
            raise InvalidOption(
                f"option {name} is {text[:40]!r}: it must be a whole number from {least} to {most}"
            )
        return int(text)

    def optional_integer(self, name: str, *, least: int, most: int) -> int | None:
        """Return a whole number, or None if the option was not given."""
        return self.integer(name, least, least=least, most=most) if self.has(name) else None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of the choices; the first is the default."""
        text = self.text(name, choices[0]).lower()
        if text not in choices:
            raise InvalidOption(f"option {name} is {text!r}: it must be {' or '.join(choices)}")
        return text

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        return self.choice(name, ("true", "false") if default else ("false", "true")) == "true"

    def time_ms(self, name: str) -> int | None:
        """Return a time in milliseconds since 1970, or None if the option was not given.

        A time without a time zone is in UTC.
        """
        if not self.has(name):
            return None
        text = self.text(name)
        if _DIGITS.fullmatch(text):
            if len(text) > _TIME_DIGITS:
                raise InvalidOption(
                    f"option {name} is {text[:40]!r}: it is too many milliseconds since 1970, perhaps microseconds;"
                    " write a time like 2026-01-31T12:00:00Z"
                )
            if int(text) < _LEAST_TIME_MS:
                raise InvalidOption(
                    f"option {name} is {text!r}: it is too few milliseconds since 1970, perhaps seconds or a year;"
                    " write a time like 2026-01-31T12:00:00Z"
                )
            return int(text)
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(
                f"option {name} is {text!r}: it must be a time like 2026-01-31T12:00:00Z, or milliseconds since 1970"
            ) from None
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)

    def database_url(self, name: str) -> str:
        """Return a PostgreSQL URL. This checks only how it begins: libpq reads the rest when it connects."""
        text = self.required(name, "postgresql://user@host:5432/database")
        if not _DATABASE_URL.match(text):
            raise InvalidOption(
                f"option {name} is not a PostgreSQL URL of the form postgresql://user@host:5432/database"
            )
        return text


def full_topic_name(text: str, where: str = "option topic") -> str:
    """Return the full name of `orders` or `tenant/namespace/orders`.

    Raises InvalidOption if the text is not a topic name, or if the topic is non-persistent.
    """
    try:
        name = TopicName.parse(text.strip())
    except InvalidTopicName as error:
        raise InvalidOption(f"{where}: {error}") from None
    if name.domain == "non-persistent":
        raise InvalidOption(f"{where}: {text!r} is non-persistent, so none of its messages are stored")
    return name.full
