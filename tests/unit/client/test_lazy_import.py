"""`import vela` costs nothing until a name is used: the broker imports `vela.wire` and no client."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vela

_SHOWS_WHAT_WAS_LOADED = """
import sys
import vela, vela.wire.entry
print(sorted(name for name in sys.modules if name.startswith("vela.") and not name.startswith("vela.wire")))
print(vela.ConsumerType.Shared.name)
"""


def test_the_client_is_loaded_when_a_name_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHOWS_WHAT_WAS_LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["['vela.version']", "Shared"]


@pytest.mark.parametrize("name", vela.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(vela, name)
    assert name in dir(vela)
    assert getattr(value, "__name__", name) in (name, f"vela.{name}", "vela.errors", "VelaError")


def test_an_unknown_name_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = vela.Nonsense  # type: ignore[attr-defined]
