"""Passwords that a thread checks: broker.access.passwords."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.access import passwords as module
from broker.access.passwords import MAX_WAITING, MAX_WAITING_OF_HOST, Passwords
from broker.core.access.passwords import StoredPassword, fits
from broker.core.errors import AuthenticationFailed
from broker.environment import SettingInvalid

SECRET = "app:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n"
OTHER = "app:$apr1$abcdefgh$82JubPF2dQkt1tVfvLnXS.\n"  # the password x


class SlowHash:
    """Stands in for a slow hash, and counts its calls. It finishes only while `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.threads: list[str] = []
        self.hashes: list[str] = []

    def __call__(self, password: bytes, stored: StoredPassword) -> bool:
        self.hashes.append(stored.hash)
        self.threads.append(threading.current_thread().name)
        assert self.go_on.wait(10)
        return fits(password, stored)


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> SlowHash:
    found = SlowHash()
    monkeypatch.setattr(module, "fits", found)
    return found


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "htpasswd"
    path.write_text(SECRET, encoding="utf-8")
    return path


@pytest.fixture
def passwords(path: Path) -> Iterator[Passwords]:
    passwords = Passwords(path)
    yield passwords
    passwords.stop()


async def test_a_password_is_checked_once_in_another_thread_and_then_known(
    passwords: Passwords, hashing: SlowHash
) -> None:
    assert passwords.known(b"app:secret") is None
    found = await asyncio.gather(*(passwords.check(b"app:secret", "1.2.3.4") for _ in range(200)))
    assert {each.role for each in found} == {"app"}
    assert passwords.known(b"app:secret") == found[0]
    assert len(hashing.threads) == 1
    assert hashing.threads[0].startswith("passwords")


async def test_unknown_users_take_as_long_as_users_with_any_of_the_hashes(
    passwords: Passwords, path: Path, hashing: SlowHash
) -> None:
    write(path, SECRET + OTHER.replace("app", "second"))
    passwords.refresh()
    for attempt in (b"a", b"b"):
        for number in range(32):
            with pytest.raises(AuthenticationFailed):
                await passwords.check(b"nobody%d:%s" % (number, attempt), "1.2.3.4")
    first, again = hashing.hashes[:32], hashing.hashes[32:]
    assert len(set(first)) == 2
    assert first == again


@pytest.mark.parametrize("wrong", [b"app:wrong", b"nobody:secret", b"app", b"", b":", b"app:secret:"])
async def test_a_wrong_password_is_hashed_once_even_for_an_unknown_user(
    passwords: Passwords, hashing: SlowHash, wrong: bytes
) -> None:
    with pytest.raises(AuthenticationFailed, match="the user or the password is wrong"):
        await passwords.check(wrong, "1.2.3.4")
    with pytest.raises(AuthenticationFailed, match="the user or the password is wrong"):
        passwords.known(wrong)
    assert len(hashing.threads) == 1


async def test_a_guesser_fills_neither_the_queue_of_others_nor_the_loop(
    passwords: Passwords, hashing: SlowHash
) -> None:
    hashing.go_on.clear()
    guesses = [asyncio.ensure_future(passwords.check(b"app:%d" % each, "6.6.6.6")) for each in range(1_000)]
    client = asyncio.ensure_future(passwords.check(b"app:secret", "1.2.3.4"))
    await asyncio.sleep(0)
    refused = [each for each in guesses if each.done()]
    assert len(refused) == 1_000 - MAX_WAITING_OF_HOST
    assert "try again" in str(refused[0].exception())
    others = [
        asyncio.ensure_future(passwords.check(b"app:-%d" % each, f"10.0.0.{each}"))
        for each in range(MAX_WAITING)
    ]
    await asyncio.sleep(0)
    assert sum(not each.done() for each in (*guesses, *others, client)) == MAX_WAITING
    hashing.go_on.set()
    assert (await client).role == "app"
    await asyncio.gather(*guesses, *others, return_exceptions=True)
    assert len(hashing.threads) == MAX_WAITING


async def test_a_changed_file_counts_at_once_and_a_bad_or_missing_one_changes_nothing(
    passwords: Passwords, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = await passwords.check(b"app:secret", "")
    assert not passwords.refresh()
    write(path, "nonsense")
    assert not passwords.refresh()
    assert "has changed and cannot be used" in caplog.text
    os.unlink(path)
    for _ in range(3):
        assert not passwords.refresh()
    assert caplog.text.count("is gone") == 1
    assert passwords.known(b"app:secret") == before
    assert passwords.is_current(before.password_id)
    write(path, OTHER)
    os.utime(path, ns=(1, 1))
    assert passwords.refresh()
    assert not passwords.is_current(before.password_id)
    with pytest.raises(AuthenticationFailed):
        await passwords.check(b"app:secret", "")
    assert (await passwords.check(b"app:x", "")).role == "app"


def test_a_file_that_becomes_readable_after_its_change_counts(
    passwords: Passwords, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may replace a file first, and only then let the broker's user read it."""

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    write(path, OTHER)
    with monkeypatch.context() as only_root_reads:
        only_root_reads.setattr(Path, "read_bytes", refuse)
        assert not passwords.refresh()
    path.chmod(0o640)
    assert passwords.refresh()


async def test_a_password_that_is_changed_while_it_is_checked_is_not_remembered(
    passwords: Passwords, path: Path, hashing: SlowHash
) -> None:
    hashing.go_on.clear()
    check = asyncio.ensure_future(passwords.check(b"app:secret", ""))
    await asyncio.sleep(0)
    write(path, OTHER + "#")
    assert passwords.refresh()
    hashing.go_on.set()
    with pytest.raises(AuthenticationFailed):
        await check
    assert passwords.known(b"app:secret") is None


def test_a_file_that_cannot_be_used_at_the_start_names_its_setting(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff")
    for path in (tmp_path / "none", bad):
        with pytest.raises(SettingInvalid, match="VELA_BASIC_FILE"):
            Passwords(path)
