"""Profiles and tokens of the command line: which value wins, and what is said about a wrong file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole, problem
from vela.cli.errors import CliError
from vela.cli.profiles.file import add_profile, profiles, remove_profile
from vela.cli.settings import OAuth2, Settings, settings

LIST = "topics list"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which vela looks for its file of profiles. No user is set."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("VELA_USER", "VELA_TOKEN", "VELA_TOKEN_FILE", "VELA_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "vela").mkdir()
    return tmp_path / "vela"


def write(folder: Path, text: str) -> None:
    (folder / "profiles.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of each command that would go to the broker."""
    found: list[Settings] = []

    def remember(*_: object) -> None:
        found.append(settings())

    monkeypatch.setattr("vela.cli.commands.read.run_with_client", remember)
    return found


@pytest.mark.usefixtures("console")
def test_an_option_wins_over_the_profile_and_the_profile_over_the_environment(
    vela: Vela, folder: Path, asked: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, '[shop]\nurl = "wss://shop:1"\nconsole_url = "https://shop:2"\ntoken_file = "/t"\n')
    monkeypatch.setenv("VELA_URL", "ws://environment:1")
    monkeypatch.setenv("VELA_TOKEN", "of-the-environment")
    vela("--profile shop --console-url http://typed:3 read orders")
    monkeypatch.setenv("VELA_PROFILE", "shop")
    vela("--token typed read orders")
    monkeypatch.delenv("VELA_PROFILE")
    vela("read orders")
    first, second, third = asked
    assert (first.url, first.console_url, first.token, first.token_file) == (
        "wss://shop:1",
        "http://typed:3",
        "",
        "/t",
    )
    assert second.token == "typed"
    assert (third.url, third.token, third.token_file) == ("ws://environment:1", "of-the-environment", "")


@pytest.mark.parametrize(
    ("typed", "profile", "environment"),
    [
        (
            {},
            {"issuer_url": "https://shop", "audience": "a"},
            {"issuer_url": "https://e", "key_file": "/e"},
        ),
        ({}, {"scope": "read"}, {"issuer_url": "https://e", "key_file": "/e", "audience": "e"}),
        (
            {"issuer_url": "https://typed"},
            {"issuer_url": "https://shop", "key_file": "/shop"},
            {"scope": "e"},
        ),
        ({"key_file": "/typed"}, {"issuer_url": "https://shop", "audience": "a", "scope": "s"}, {}),
    ],
)
def test_all_values_about_a_login_server_come_from_one_source(
    typed: dict[str, str],
    profile: dict[str, str],
    environment: dict[str, str],
    vela: Vela,
    folder: Path,
    asked: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(folder, "[shop]\n" + "".join(f'oauth2_{name} = "{value}"\n' for name, value in profile.items()))
    monkeypatch.setenv("VELA_TOKEN", "of-the-environment")
    for name, value in environment.items():
        monkeypatch.setenv(f"VELA_OAUTH2_{name.upper()}", value)
    options = " ".join(f"--oauth2-{name.replace('_', '-')} {value}" for name, value in typed.items())
    vela(f"{options} --profile shop read orders")
    (found,) = asked
    assert (found.oauth2, found.token) == (OAuth2(**(typed or profile)), "")


@pytest.mark.parametrize("command", ["--url ws://127.0.0.1:1 read orders", LIST])
def test_an_audience_without_its_server_is_a_wrong_command_line(
    vela: Vela, console: FakeConsole, folder: Path, command: str
) -> None:
    write(folder, '[shop]\noauth2_issuer_url = "https://shop"\noauth2_key_file = "/shop"\n')
    done = vela(f"--oauth2-audience a --profile shop {command}")
    assert done.exit_code == 2
    assert "issuer_url" in done.stderr
    assert not console.asked


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no profile 'shop'; it has none"),
        ("[bank]\n[zoo]\n", "it has bank, zoo"),
        ("[shop]\npassword = 'x'\n", "'shop' cannot have password: use url, console_url, user, token_file"),
        ("[shop]\nurl = 1\n", "must be a table of strings"),
        ("shop = 'x'\n", "must be a table of strings"),
        ("[shop\n", "cannot be read"),
    ],
)
def test_a_wrong_profile_is_a_wrong_command_line(vela: Vela, folder: Path, text: str, says: str) -> None:
    write(folder, text)
    done = vela(f"--profile shop {LIST}")
    assert done.exit_code == 2
    assert says in done.stderr


def test_without_a_user_the_console_gets_the_token(vela: Vela, console: FakeConsole, folder: Path) -> None:
    path = folder / "shop.token"
    path.write_text("abc\n", encoding="utf-8")
    write(folder, f'[shop]\ntoken_file = "{path}"\n')
    vela(f"--profile shop {LIST}")
    assert console.asked[-1].headers["authorization"] == "Bearer abc"
    vela(f"--profile shop --user ada {LIST}")
    assert console.asked[-1].headers["authorization"].startswith("Basic ")
    vela(LIST)
    assert "authorization" not in console.asked[-1].headers


@pytest.mark.parametrize(
    ("typed", "profile", "environment", "for_broker", "for_console"),
    [
        ("--profile shop", 'url = "wss://shop:1"', {"VELA_TOKEN": "e"}, False, True),
        ("--profile shop", 'console_url = "https://shop:2"', {"VELA_TOKEN": "e"}, True, False),
        ("--profile shop --token t", 'url = "wss://shop:1"', {}, True, True),
        ("", 'url = "wss://shop:1"', {"VELA_TOKEN": "e"}, False, True),
        ("", 'url = "wss://shop:1"\ntoken_file = "/t"', {"VELA_URL": "ws://e:1"}, False, False),
        ("--profile shop", 'url = "wss://shop:1"\ntoken_file = "/t"', {}, True, False),
        ("--profile shop", 'console_url = "https://shop:2"\ntoken_file = "/t"', {}, False, True),
        ("--url ws://typed:1", 'url = "wss://shop:1"\ntoken_file = "/t"', {}, False, False),
        ("--url ws://typed:1", 'token_file = "/t"', {}, True, True),
        ("--profile shop --url ws://typed:1", 'url = "wss://shop:1"\ntoken_file = "/t"', {}, True, False),
        ("--url ws://typed:1", "", {"VELA_TOKEN": "e", "VELA_CONSOLE_URL": "http://e:2"}, True, True),
    ],
)
def test_a_token_goes_to_no_server_of_another_profile(
    vela: Vela,
    folder: Path,
    asked: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    profile: str,
    environment: dict[str, str],
    for_broker: bool,
    for_console: bool,
) -> None:
    monkeypatch.delenv("VELA_URL", raising=False)
    monkeypatch.delenv("VELA_CONSOLE_URL", raising=False)
    write(folder, f"[shop]\n{profile}\n")
    (folder / "profile-in-use").write_text("shop\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    vela(f"{typed} read orders")
    (found,) = asked
    assert (found.for_broker, found.for_console) == (for_broker, for_console)


def test_the_console_of_a_profile_gets_no_secret_of_the_environment(
    vela: Vela, console: FakeConsole, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, '[shop]\nconsole_url = "http://shop:1"\n')
    monkeypatch.setenv("VELA_TOKEN", "of-another-server")
    monkeypatch.setenv("VELA_USER", "ada")
    monkeypatch.setenv("VELA_PASSWORD", "secret")
    vela(f"--profile shop {LIST}")
    assert "authorization" not in console.asked[-1].headers


def test_the_default_console_does_not_get_the_token_of_a_profile_for_another_server(
    vela: Vela, console: FakeConsole, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VELA_CONSOLE_URL", raising=False)
    path = folder / "shop.token"
    path.write_text("abc\n", encoding="utf-8")
    write(folder, f'[shop]\nurl = "wss://shop:1"\ntoken_file = "{path}"\n')
    console.answers["GET topics"] = problem(401, "AuthenticationError", "log in")
    done = vela(f"--profile shop {LIST}")
    assert "authorization" not in console.asked[-1].headers
    assert "put this address and its token into one profile" in done.stderr


def test_a_token_file_that_cannot_be_read_is_named(vela: Vela, console: FakeConsole, folder: Path) -> None:
    done = vela(f"--token-file {folder}/absent {LIST}")
    assert done.exit_code == 2
    assert f"{folder}/absent cannot be read" in done.stderr
    assert not console.asked


@pytest.mark.usefixtures("folder")
def test_a_token_and_a_token_file_exclude_each_other(vela: Vela) -> None:
    done = vela("--token a --token-file b --url ws://127.0.0.1:1 read orders")
    assert done.exit_code == 2
    assert "give one of them" in done.stderr


def test_the_profile_in_use_applies_unless_an_option_replaces_it(
    vela: Vela, folder: Path, asked: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, '[shop]\nurl = "wss://shop:1"\ntoken_file = "/t"\n[zoo]\nurl = "wss://zoo:1"\n')
    assert "commands use the profile shop now" in vela("profile use shop").stdout
    vela("read orders")
    vela("--profile zoo read orders")
    monkeypatch.setenv("VELA_URL", "ws://environment:1")
    monkeypatch.setenv("VELA_TOKEN", "of-the-environment")
    vela("read orders")
    vela("profile use")
    monkeypatch.delenv("VELA_URL")
    vela("read orders")
    assert [(each.url, each.token, each.token_file) for each in asked] == [
        ("wss://shop:1", "", "/t"),
        ("wss://zoo:1", "", ""),
        ("ws://environment:1", "of-the-environment", ""),
        ("ws://127.0.0.1:8080", "of-the-environment", ""),
    ]
    assert "no profile 'none'" in vela("profile use none").stderr


def test_a_profile_in_use_that_is_gone_can_be_replaced(
    vela: Vela, console: FakeConsole, folder: Path
) -> None:
    assert vela("--url ws://shop:1 profile add shop").exit_code == 0
    assert vela("profile use shop").exit_code == 0
    (folder / "profiles.toml").unlink()
    assert "has no profile 'shop'" in vela("acts list").stderr
    assert vela("completion bash").exit_code == 0
    assert vela("profile list").exit_code == 0
    assert vela("profile use").exit_code == 0
    assert "has no profile" not in vela("acts list").stderr


def test_profiles_are_added_listed_and_removed_and_the_rest_of_the_file_stays(
    vela: Vela, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    mine = '# mine\n[bank]\nurl = "wss://bank:1"  # ours\n'
    write(folder, mine)
    typed = "--url wss://shop:1 --token-file shop.token --oauth2-scope read"
    assert vela(f"{typed} profile add shop").exit_code == 0
    vela("profile use shop")
    listed = vela("profile list").stdout.splitlines()
    assert listed == ["  bank  wss://bank:1", "* shop  wss://shop:1"]
    assert vela("profile list --json").stdout.splitlines()[1] == json.dumps(
        {
            "name": "shop",
            "is_used": True,
            "url": "wss://shop:1",
            "token_file": f"{folder}/shop.token",
            "oauth2_scope": "read",
        }
    )
    assert (folder / "profiles.toml").stat().st_mode & 0o777 == 0o600
    assert vela("profile remove shop").exit_code == 0
    assert (folder / "profiles.toml").read_text(encoding="utf-8").rstrip() == mine.rstrip()
    assert vela("profile list").stdout.splitlines() == ["  bank  wss://bank:1"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--url ws://x:1 profile add shop", "has a profile 'shop'"),
        ("--url ws://x:1 profile add sh.op", "cannot be a profile"),
        ("--token secret profile add new", "stores no token"),
        ("profile add new", "give the profile's options before"),
        ("profile remove new", "has no profile 'new'"),
    ],
)
def test_an_invalid_profile_is_refused_and_changes_nothing(
    vela: Vela, folder: Path, line: str, says: str
) -> None:
    write(folder, '[shop]\nurl = "wss://shop:1"\n')
    done = vela(line)
    assert done.exit_code != 0
    assert says in done.stderr
    assert (folder / "profiles.toml").read_text(encoding="utf-8") == '[shop]\nurl = "wss://shop:1"\n'


@pytest.mark.parametrize("path", ["/tmp/🔑.token", "/tmp/é\x7f\x01.token", '/tmp/"\\.token'])
def test_any_path_can_be_written_and_read_again(folder: Path, path: str) -> None:
    write(folder, '[bank]\nurl = "wss://bank:1"\n')
    add_profile("shop", {"token_file": path})
    assert profiles() == {"bank": {"url": "wss://bank:1"}, "shop": {"token_file": path}}
    remove_profile("shop")
    assert list(profiles()) == ["bank"]


def test_a_path_that_is_not_text_is_refused_and_the_file_stays(folder: Path) -> None:
    write(folder, '[bank]\nurl = "wss://bank:1"\n')
    with pytest.raises(CliError, match="cannot be written"):
        add_profile("shop", {"token_file": "/tmp/\udcff.token"})
    assert list(profiles()) == ["bank"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\nurl = '1'\n\n# of b\n[b]\nurl = '2'\n", "# of b\n[b]\nurl = '2'\n"),
        ("[a]\n# of its url\nurl = '1'\n\n# of b\n\n# more\n[b]\n", "# of b\n\n# more\n[b]\n"),
        ("# of a\n[a]\nurl = '1'\n\n# the end\n", "# of a\n# the end\n"),
    ],
)
def test_the_comment_above_the_next_profile_stays(folder: Path, before: str, after: str) -> None:
    write(folder, before)
    remove_profile("a")
    assert (folder / "profiles.toml").read_text(encoding="utf-8") == after


def test_a_user_without_a_home_folder_has_no_profiles(
    vela: Vela, console: FakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_uid: int) -> None:
        raise KeyError("no such user")

    for name in ("HOME", "XDG_CONFIG_HOME", "VELA_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    console.answers["GET topics"] = {"topics": [], "next_after": None}
    assert vela(LIST).exit_code == 0
    refused = vela("--profile shop topics list")
    assert (refused.exit_code, "set HOME, or write the whole path" in refused.stderr) == (2, True)
