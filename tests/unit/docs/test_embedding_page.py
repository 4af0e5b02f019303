"""docs/how-to/add-to-your-project.md limits wrong passwords as Vela's own project does."""

from __future__ import annotations

import re
from datetime import timedelta

from config import settings
from tests.unit.docs.pages import page

# Each project may choose these two for itself: they say what django-axes logs, and change no limit.
OWN_CHOICE = {"AXES_DISABLE_ACCESS_LOG", "AXES_VERBOSE"}


def test_the_login_limits_are_those_of_velas_own_project() -> None:
    lines = re.findall(r"^(AXES_\w+) = (.+)$", page("how-to/add-to-your-project.md"), re.MULTILINE)
    written = {name: eval(value, {"timedelta": timedelta}) for name, value in lines}
    own = {name: value for name, value in vars(settings).items() if name.startswith("AXES_")}
    assert written == {name: value for name, value in own.items() if name not in OWN_CHOICE}
