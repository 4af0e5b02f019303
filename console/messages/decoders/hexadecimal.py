"""A hexadecimal dump of bytes."""

from __future__ import annotations

__all__ = ["hex_dump"]

_WIDTH = 16


def hex_dump(data: bytes) -> str:
    """Return a dump with 16 bytes per line."""
    lines = []
    for at in range(0, len(data), _WIDTH):
        row = data[at : at + _WIDTH]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<{3 * _WIDTH - 1}}  {letters}")
    return "\n".join(lines)
