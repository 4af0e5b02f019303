#!/usr/bin/env python3
"""Vela's management commands."""

import os
import sys


def main() -> None:
    """Run the command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    from broker.conf import SettingInvalid

    try:
        execute_from_command_line(sys.argv)
    except SettingInvalid as error:
        sys.exit(f"vela: {error}")


if __name__ == "__main__":
    main()
