"""No package of Vela holds more modules than a reader can take in. A larger package must be divided."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from config.environment import PROJECT_DIR

ROOTS = ("bench", "broker", "config", "console", "pipeline", "vela")
MOST_MODULES = 15


def sizes() -> Counter[str]:
    """Return how many modules each package holds, without `__init__` and without the packages below it."""
    modules: list[Path] = [path for root in ROOTS for path in (PROJECT_DIR / root).rglob("*.py")]
    return Counter(
        path.parent.relative_to(PROJECT_DIR).as_posix() for path in modules if path.stem != "__init__"
    )


def test_no_package_has_too_many_modules() -> None:
    found = sizes()
    assert found.keys() >= set(ROOTS)
    too_large = [f"{package}: {count} modules" for package, count in found.items() if count > MOST_MODULES]
    assert not too_large, f"group by noun what holds more than {MOST_MODULES}"
