"""Patches in tests/patches: each fits the code and names tests that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.behaviour import Row, read_rows
from tests.matrix.mutate import draw
from tests.matrix.patches import PATCHES_DIR, BadPatch, apply, faults, parse, read_patches

GOOD = """
row = "S1.4"
tests = ["tests/unit/test_x.py::test_s1_4_held"]
[[change]]
file = "code.py"
find = \"""a = 1\"""
replace = \"""a = 2\"""
"""
ROWS = {
    "S1.4": Row(name="S1.4", side="broker", statement="A."),
    "S2.1": Row(name="S2.1", side="client", statement="B."),
}


@pytest.mark.parametrize("name", [path.stem for path in sorted(PATCHES_DIR.glob("*.toml"))])
def test_patch_fits(name: str) -> None:
    patch = parse(name, (PATCHES_DIR / f"{name}.toml").read_text(encoding="utf-8"))
    assert list(faults(patch, read_rows())) == []


def found_in(tmp_path: Path, text: str, *, name: str = "s1_4", code: str = "a = 1\nb = 1\n") -> list[str]:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_x.py").write_text(
        "def test_s1_4_held(): ...\ndef test_other(): ...\n"
    )
    (tmp_path / "code.py").write_text(code)
    return list(faults(parse(name, text), ROWS, tmp_path))


@pytest.mark.parametrize("name", ["s1_4", "s1_4_at_restart"])
def test_a_good_patch_has_no_faults(tmp_path: Path, name: str) -> None:
    assert found_in(tmp_path, GOOD, name=name) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("S1.4", "S9.9", "is not one of the broker's"),
        ("S1.4", "S2.1", "is not one of the broker's"),
        ("test_s1_4_held", "test_s1_4_gone", "there is no test"),
        ("test_x.py", "test_y.py", "there is no test"),
        ("test_s1_4_held", "test_other", "is not named by"),
        ("a = 1", "c = 1", "0 times, not once"),
        ("a = 1", "= 1", "2 times, not once"),
        ("a = 2", "a = 1", "stays as it is"),
        ("a = 2", "a = (", "never closed"),
        ("code.py", "gone.py", "No such file"),
        ("code.py", "tests/unit/test_x.py", "0 times"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert complaint in "\n".join(found_in(tmp_path, GOOD.replace(old, new)))


def test_a_name_begins_with_the_row(tmp_path: Path) -> None:
    expected = ["its name must begin with its row, S1.4, or with client_ and its row"]
    assert found_in(tmp_path, GOOD, name="s1_40") == expected


def test_a_patch_of_the_clients_half_names_the_clients_tests(tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit" / "client").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "client" / "test_y.py").write_text("def test_s2_1_size(): ...\n")
    (tmp_path / "code.py").write_text("a = 1\n")
    text = GOOD.replace("S1.4", "S2.1").replace(
        "test_x.py::test_s1_4_held", "client/test_y.py::test_s2_1_size"
    )
    assert list(faults(parse("client_s2_1", text), ROWS, tmp_path)) == []
    assert parse("client_s2_1", text).is_clients
    assert "does not lie where the broker's tests do" in "".join(faults(parse("s2_1", text), ROWS, tmp_path))


def test_a_patch_of_the_clients_half_is_of_a_row_of_the_clients(tmp_path: Path) -> None:
    found = "\n".join(found_in(tmp_path, GOOD, name="client_s1_4"))
    assert "row S1.4 is not one of the client's" in found
    assert "does not lie where the client's tests do" in found


def test_a_test_is_not_patched(tmp_path: Path) -> None:
    text = (
        GOOD.replace("code.py", "tests/unit/test_x.py").replace("a = 1", "test_other").replace("a = 2", "x")
    )
    assert "is a test" in found_in(tmp_path, text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "row = ",
        GOOD + 'why = "x"\n',
        GOOD.replace("find", "found"),
        'row = "S1.4"\ntests = []\nchange = []\n',
        "row = 1",
    ],
)
def test_other_formats_are_refused(text: str) -> None:
    with pytest.raises(BadPatch, match=r"s1_4: (it takes|.*; it takes)"):
        parse("s1_4", text)


def test_nothing_is_written_when_one_change_does_not_fit() -> None:
    text = GOOD + '[[change]]\nfile = "code.py"\nfind = "gone"\nreplace = "x"\n'
    written: list[str] = []
    with pytest.raises(BadPatch):
        apply(parse("s1_4", text), lambda path: "a = 1", lambda path, code: written.append(path))
    assert written == []


def test_changes_of_one_file_add_up() -> None:
    text = GOOD + '[[change]]\nfile = "code.py"\nfind = "b"\nreplace = "c"\n'
    written: dict[str, str] = {}
    apply(parse("s1_4", text), lambda path: "a = 1; b", written.__setitem__)
    assert written == {"code.py": "a = 2; c"}


def test_a_seed_draws_the_same_again() -> None:
    patches = read_patches()
    assert draw(patches, 5, 1) == draw(patches, 5, 1)
    assert len(draw(patches, 10**6, 1)) == len(patches)
