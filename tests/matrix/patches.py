"""tests/patches: small changes of the code, each of which must make the tests it names fail.

row = "S1.4"
tests = ["tests/unit/core/test_x.py::test_s1_4_delayed_message_is_held_on_shared"]

[[change]]
file = "broker/service/x.py"
find = \"""text that occurs exactly once in the file\"""
replace = \"""what breaks it\"""

Its file is called s1_4.toml, s1_4_<what>.toml, or, where it breaks the client's half, client_s1_4.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.environment import PROJECT_DIR
from tests.matrix.behaviour import Row
from tests.matrix.collecting import find_tests, is_client_test, rows_of

__all__ = ["PATCHES_DIR", "BadPatch", "Change", "Patch", "apply", "faults", "parse", "read_patches"]

PATCHES_DIR: Final = PROJECT_DIR / "tests" / "patches"
_CLIENT: Final = "client_"


class BadPatch(Exception):
    """A patch file that is not in the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One place of the code."""

    file: str  # from the project's folder
    find: str
    replace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One patch file."""

    name: str  # its file name without .toml
    row: str
    tests: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def is_clients(self) -> bool:
        """It breaks the client library's half of its row."""
        return self.name.startswith(_CLIENT)

    @property
    def needs_nothing(self) -> bool:
        """Its tests run without a server."""
        return all(test.startswith("tests/unit/") for test in self.tests)


def parse(name: str, text: str) -> Patch:
    """A patch out of its file's text. Raises BadPatch."""
    try:
        found = tomllib.loads(text)
        changes = found.pop("change")
        patch = Patch(
            name=name,
            row=found.pop("row"),
            tests=tuple(found.pop("tests")),
            changes=tuple(Change(**change) for change in changes),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise BadPatch(
            f"{name}: {error!r}; it takes row, tests and [[change]] with file, find, replace"
        ) from error
    if found or not patch.tests or not patch.changes:
        raise BadPatch(
            f"{name}: it takes row, tests and [[change]], each with something in it, and nothing else"
        )
    return patch


def read_patches(folder: Path = PATCHES_DIR) -> list[Patch]:
    """All patches by name. Raises BadPatch."""
    return [parse(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]


def faults(patch: Patch, rows: Mapping[str, Row], root: Path = PROJECT_DIR) -> Iterator[str]:
    """What is wrong with a patch as the code is now."""
    row = rows.get(patch.row)
    side = "client" if patch.is_clients else "broker"
    if row is None or not (row.is_clients if patch.is_clients else row.is_brokers):
        yield f"row {patch.row} is not one of the {side}'s in docs/reference/behaviour.md"
    if not f"{patch.name.removeprefix(_CLIENT)}_".startswith(patch.row.lower().replace(".", "_") + "_"):
        yield f"its name must begin with its row, {patch.row}, or with client_ and its row"
    for test in patch.tests:
        path, _, inside = test.partition("::")
        if not (root / path).is_file() or inside not in find_tests((root / path).read_text(encoding="utf-8")):
            yield f"there is no test {test}"
        elif patch.row not in rows_of(inside.rpartition("::")[2]):
            yield f"{test} is not named by {patch.row}"
        if is_client_test(test) != patch.is_clients:
            yield f"{test} does not lie where the {side}'s tests do: the client's are in tests/*/client"
    try:
        apply(patch, _reader(root), lambda path, text: _check(path, text))
    except (BadPatch, SyntaxError, OSError) as error:
        yield str(error)


def apply(patch: Patch, read: Callable[[str], str], write: Callable[[str, str], None]) -> None:
    """Make the changes, by two functions of a path from the project's folder.

    Raises BadPatch, having written nothing.
    """
    texts: dict[str, str] = {}
    for change in patch.changes:
        text = texts.get(change.file) or read(change.file)
        count = text.count(change.find)
        if count != 1:
            raise BadPatch(f"{change.file} holds {count} times, not once: {change.find!r}")
        if change.find == change.replace:
            raise BadPatch(f"{change.file} stays as it is")
        texts[change.file] = text.replace(change.find, change.replace)
    for path, text in texts.items():
        write(path, text)


def _reader(root: Path) -> Callable[[str], str]:
    return lambda path: (root / path).read_text(encoding="utf-8")


def _check(path: str, text: str) -> None:
    if path.startswith("tests/"):
        raise BadPatch(f"{path} is a test; a patch breaks the code")
    if path.endswith(".py"):
        compile(text, path, "exec")
