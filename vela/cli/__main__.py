"""`python -m vela.cli`, and what the installed `vela` runs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from vela.cli.root import cli

        cli(prog_name="vela")
    except KeyboardInterrupt:  # while modules are still being imported
        sys.exit(130)


if __name__ == "__main__":
    main()
