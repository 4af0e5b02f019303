#!/usr/bin/env python3
"""Vela's management commands."""

import os
import sys


def main() -> None:
    """Run the command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    from broker.conf import EXIT_SETTING_INVALID, SettingInvalid

    try:
        execute_from_command_line(sys.argv)
    except SettingInvalid as error:
        sys.stderr.write(f"vela: {error}\n")
        sys.exit(EXIT_SETTING_INVALID)


if __name__ == "__main__":
    main()
