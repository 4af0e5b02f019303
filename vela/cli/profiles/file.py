"""Read and change profiles: addresses and credentials under a name, in a file of the user.

    [shop]
    url = "wss://vela.example.org"
    console_url = "https://vela.example.org"
    token_file = "~/.config/vela/shop.token"

When `vela profile` changes the file, it keeps comments and other profiles. The name of the profile in use is in a
second file beside the first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vela.cli.errors import CliError, Exit

__all__ = [
    "NAMES",
    "OAUTH2_NAMES",
    "TLS_NAMES",
    "add_profile",
    "profile",
    "profiles",
    "profiles_path",
    "remove_profile",
    "use_profile",
    "used_profile",
]

TLS_NAMES: Final = ("tls_trust_file", "tls_certificate_file", "tls_key_file")
OAUTH2_NAMES: Final = ("oauth2_issuer_url", "oauth2_key_file", "oauth2_audience", "oauth2_scope")
NAMES: Final = ("url", "console_url", "user", "token_file", *OAUTH2_NAMES, *TLS_NAMES)
_FILES: Final = frozenset({"token_file", "oauth2_key_file", *TLS_NAMES})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # names that TOML accepts without quotes
_TABLE: Final = re.compile(r"\s*\[")


def profiles_path() -> Path:
    """Return the path of the file with the profiles, which need not exist."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return _expanded(folder) / "vela" / "profiles.toml"


def profiles() -> dict[str, dict[str, str]]:
    """Return all profiles by name, as they are written. Raises CliError if the file cannot be read."""
    found = _read(profiles_path())
    return {name: _checked(name, fields) for name, fields in found.items()}


def profile(name: str) -> dict[str, str]:
    """Return one profile, with "~" in its paths expanded. Raises CliError if there is none or it cannot be read."""
    path = profiles_path()
    found = _read(path)
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise CliError(f"{path} has no profile {name!r}; it has {known}", Exit.USAGE, code="NoProfile")
    fields = _checked(name, found[name])
    return {key: str(_expanded(text)) if key in _FILES else text for key, text in fields.items()}


def add_profile(name: str, fields: Mapping[str, str]) -> None:
    """Write a new profile. Raises CliError if the name is taken or not valid."""
    path = profiles_path()
    if _NAME.fullmatch(name) is None:
        raise CliError(f"{name!r} cannot be a profile: use letters, digits, - and _", Exit.USAGE)
    if name in _read(path):
        raise CliError(
            f"{path} has a profile {name!r}: remove it first with `vela profile remove {name}`",
            Exit.REFUSED,
            code="ProfileExists",
        )
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # The command may run in another folder next time.
    whole = {
        key: str(_expanded(value).absolute()) if key in _FILES else value for key, value in fields.items()
    }
    lines = "".join(f"{key} = {_quoted(value)}\n" for key, value in whole.items())
    _write(path, f"{text.rstrip()}\n\n[{name}]\n{lines}".lstrip())


def remove_profile(name: str) -> None:
    """Delete a profile, and stop using it. Raises CliError if there is none, or if it must be deleted by hand."""
    profile(name)
    path = profiles_path()
    text = _without(name, path.read_text(encoding="utf-8"))
    if name in _parsed(path, text):
        raise CliError(
            f"{path}: edit it by hand: profile {name!r} is written in an unusual way", Exit.REFUSED
        )
    _write(path, text)
    if used_profile() == name:
        use_profile("")


def used_profile() -> str:
    """Return the profile that `vela profile use` has chosen, "" = none."""
    try:
        return _used_path().read_text(encoding="utf-8").strip()
    except (OSError, ValueError, CliError):  # CliError: the user has no home folder
        return ""


def use_profile(name: str) -> None:
    """Choose the profile that applies without --profile; "" = none. Raises CliError if there is no such profile."""
    if name:
        profile(name)
        _write(_used_path(), f"{name}\n")
    else:
        _used_path().unlink(missing_ok=True)


def _quoted(text: str) -> str:
    """Return `text` as a TOML string. JSON escapes the characters that TOML forbids, except DEL.

    Other characters are not escaped: JSON's escapes can be surrogate pairs, which TOML does not allow.
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without(name: str, text: str) -> str:
    """Return the file's text without one table. Comments between that table and the next belong to the next."""
    kept: list[str] = []
    between: list[str] = []  # comments to keep if no field of the table follows
    is_in = False
    for line in text.splitlines(keepends=True):
        if _TABLE.match(line):
            kept += between
            between = []
            is_in = line.split("#")[0].strip() in (f"[{name}]", f'["{name}"]', f"['{name}']")
        if not is_in:
            kept.append(line)
        elif line.lstrip().startswith("#") or (between and not line.strip()):
            between.append(line)
        elif line.strip():
            between = []
    return "".join(kept + between)


def _expanded(path: str) -> Path:
    """Return a path with "~" or "~name" expanded. Raises CliError if that user has no home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise CliError(
            f"{path} cannot be found, because there is no home folder: set HOME, or write the whole path",
            Exit.USAGE,
            code="NoHome",
        ) from None


def _used_path() -> Path:
    return profiles_path().with_name("profile-in-use")


def _checked(name: str, fields: object) -> dict[str, str]:
    path = profiles_path()
    if not isinstance(fields, Mapping) or any(not isinstance(each, str) for each in fields.values()):
        raise CliError(
            f"{path}: profile {name!r} must be a table of strings",
            Exit.USAGE,
            code="InvalidProfile",
        )
    if unknown := sorted(set(fields) - set(NAMES)):
        raise CliError(
            f"{path}: profile {name!r} cannot have {', '.join(unknown)}: use {', '.join(NAMES)}",
            Exit.USAGE,
            code="InvalidProfile",
        )
    return dict(fields)


def _read(path: Path) -> Mapping[str, object]:
    try:
        return _parsed(path, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path} cannot be read: {error}", Exit.USAGE, code="InvalidProfile") from None


def _parsed(path: Path, text: str) -> Mapping[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise CliError(f"{path} cannot be read: {error}", Exit.USAGE, code="InvalidProfile") from None


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole. Only the user may read it, because addresses can contain secrets."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.touch(mode=0o600)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except (OSError, UnicodeEncodeError) as error:
        raise CliError(f"{path} cannot be written: {error}", Exit.FAILED) from None
