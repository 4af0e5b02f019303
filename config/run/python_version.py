"""Refuse an old Python in one sentence. This file runs on any Python 3, so it uses only the syntax of 3.0."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the one file that an old Python has to be able to read
    sys.exit(
        "Vela needs Python 3.11 or newer and %s is %d.%d: name a newer one, e.g. make run PYTHON=python3.12"  # noqa: UP031
        % ((sys.executable,) + tuple(sys.version_info[:2]))  # noqa: RUF005
    )
