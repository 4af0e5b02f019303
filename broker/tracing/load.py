"""Import OpenTelemetry if the settings ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.conf import SettingInvalid

if TYPE_CHECKING:
    from broker.tracing.tracing import Tracing

__all__ = ["load_tracing"]


def load_tracing(*, is_on: bool) -> Tracing | None:
    """Return the broker's tracing, or None if tracing is off. Starts the exporter thread.

    Raises SettingInvalid if the packages are not installed, or if OpenTelemetry refuses its environment variables.
    """
    if not is_on:
        return None
    try:
        from broker.tracing.tracing import Tracing
    except ModuleNotFoundError as error:
        raise SettingInvalid(
            f"VELA_OTEL is 1, but {error.name} is not installed: in Vela's folder run pip install '.[otel]'"
        ) from None
    try:
        return Tracing()
    except Exception as error:  # OpenTelemetry's errors have no common base class
        raise SettingInvalid(
            f"VELA_OTEL is 1, and OpenTelemetry refuses its settings: {error}; check the OTEL_… variables"
        ) from error
