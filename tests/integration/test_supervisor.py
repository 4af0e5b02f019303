"""The supervisor with small real processes: it restarts them, gives up, stops them in order, or kills them."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.conf import EXIT_LOCK_TAKEN, EXIT_SETTING_INVALID
from config.run.children.child import Backoff, Child
from config.run.errors import StartRefused
from config.run.supervisor import Supervisor

NEVER_S = 600.0  # a test that waited this long would reach its own time limit first

MakeChild = Callable[[str, str], Child]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeChild]:
    """A function that makes children.

    A child runs a shell script in the test's folder, and is up once a file with its name exists.
    """
    made: list[Child] = []

    def make_child(name: str, script: str) -> Child:
        made.append(
            Child(
                name=name,
                command=["/bin/sh", "-c", f"cd {tmp_path}\n{script}"],
                is_up=(tmp_path / name).exists,
                environment={"PATH": "/usr/bin:/bin"},
                log=tmp_path / f"{name}.log",
                backoff=Backoff(first_s=0.001, most_s=0.001),
            )
        )
        return made[-1]

    yield make_child
    for child in made:
        child.kill()


def serving(name: str, *, at_term: str = "exit 0") -> str:
    """Return a script that is up until SIGTERM, and then runs `at_term`."""
    return f"trap '{at_term}' TERM\n: > {name}\nwhile :; do sleep 0.02; done"


def test_a_child_that_dies_while_it_starts_is_started_again(
    make: MakeChild, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile = make("fragile", f"[ -e tried ] || {{ : > tried; echo no luck; exit 3; }}\n{serving('fragile')}")
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        supervisor.start([[fragile, make("sound", serving("sound"))]])
        assert fragile.is_running()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("fragile ended with exit code 3 (no luck); starting it again in 0.0 s (log: ")


def test_a_child_that_is_killed_while_it_starts_is_started_again(
    make: MakeChild, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile = make("fragile", f"[ -e tried ] || {{ : > tried; kill -KILL $$; }}\n{serving('fragile')}")
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        supervisor.start([[fragile]])
    assert "fragile was ended by SIGKILL; starting it again" in capsys.readouterr().out


def test_a_child_that_the_system_cannot_start_is_started_later(
    make: MakeChild, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile = make("fragile", f"[ -e tried ] || {{ : > tried; exit 3; }}\n{serving('fragile')}")
    starts = iter([True, False])

    def start(child: Child) -> None:
        if not next(starts, True):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        really_start(child)

    really_start = Child.start
    monkeypatch.setattr(Child, "start", start)
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        supervisor.start([[fragile]])
        assert fragile.is_running()
    assert "fragile cannot be started: [Errno 11] Resource temporarily unavailable" in capsys.readouterr().out


@pytest.mark.parametrize("code", [EXIT_SETTING_INVALID, EXIT_LOCK_TAKEN])
def test_a_child_that_refuses_to_start_ends_the_start_with_its_sentence(make: MakeChild, code: int) -> None:
    sound = make("sound", serving("sound"))
    refusing = make("refusing", f"echo 'vela: VELA_X is wrong' >&2; exit {code}")
    with (
        pytest.raises(StartRefused) as refused,
        Supervisor(None, stop_timeout_s=NEVER_S) as supervisor,
    ):
        supervisor.start([[sound, refusing]])
    assert (str(refused.value), refused.value.exit_code) == ("refusing: VELA_X is wrong", code)
    assert not sound.is_running()


def test_a_child_that_refuses_its_settings_after_the_start_is_not_started_again(
    make: MakeChild, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = make(
        "refusing", f": > refusing\necho started >> starts\necho wrong; exit {EXIT_SETTING_INVALID}"
    )
    sound = make("sound", serving("sound"))
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        monkeypatch.setattr(supervisor, "_stages", [[refusing, sound]])
        refusing.start()
        sound.start()
        looks_after_the_end = iter(range(3))

        def look(timeout_s: float) -> None:
            wait(timeout_s)
            if refusing.process is None and next(looks_after_the_end, None) is None:
                signal.raise_signal(signal.SIGTERM)

        wait = supervisor._wait
        monkeypatch.setattr(supervisor, "_wait", look)
        supervisor.watch()
        assert sound.is_running()
    assert (tmp_path / "starts").read_text() == "started\n"
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("refusing refused to start (wrong) and is not started again; ")


def test_a_broker_that_finds_the_lock_taken_after_the_start_is_started_until_it_is_free(
    make: MakeChild, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make(
        "broker",
        f"echo started >> starts\n[ $(wc -l < starts) -gt 3 ] || {{ echo taken; exit {EXIT_LOCK_TAKEN}; }}\n"
        + serving("broker"),
    )
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        monkeypatch.setattr(supervisor, "_stages", [[broker]])
        broker.start()
        looks = iter(range(1000))

        def look(timeout_s: float) -> None:
            wait(timeout_s)
            if broker.is_up() or next(looks, None) is None:
                signal.raise_signal(signal.SIGTERM)

        wait = supervisor._wait
        monkeypatch.setattr(supervisor, "_wait", look)
        supervisor.watch()
        assert broker.is_up()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(
        f"broker ended with exit code {EXIT_LOCK_TAKEN} (taken); starting it again in "
    )


def test_a_stage_is_stopped_after_the_one_before_it_has_ended(
    make: MakeChild, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def noting(name: str) -> Child:
        at_term = f"echo {name} asked >> order; echo {name} gone >> order; exit 0"
        return make(name, serving(name, at_term=at_term))

    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        supervisor.start([[noting("sender")], [noting("broker")]])
    order = (tmp_path / "order").read_text().splitlines()
    assert order == ["sender asked", "sender gone", "broker asked", "broker gone"]
    assert capsys.readouterr().out == ""


def test_a_process_that_exceeds_its_share_of_the_time_to_stop_is_killed(
    make: MakeChild, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = make("stuck", serving("stuck", at_term=":"))
    with Supervisor(None, stop_timeout_s=0.3) as supervisor:
        supervisor.start([[stuck]])
    assert capsys.readouterr().out.endswith("s and was killed; set VELA_STOP_TIMEOUT_S to give it longer\n")
    assert stuck.died() == -signal.SIGKILL


def test_a_second_ctrl_c_kills_processes_that_have_not_stopped(
    make: MakeChild, capsys: pytest.CaptureFixture[str]
) -> None:
    """The child itself sends Ctrl-C again when it is asked to stop, and keeps running."""
    stuck = make("stuck", serving("stuck", at_term="kill -INT $PPID"))
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        supervisor.start([[stuck]])
        signal.raise_signal(signal.SIGTERM)
        assert supervisor.stop_asked
    assert capsys.readouterr().out == "stuck was killed after a second signal to stop\n"


@pytest.mark.parametrize(("number", "stops"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
def test_an_ignored_ctrl_c_stops_and_an_ignored_hangup_does_not(number: signal.Signals, stops: bool) -> None:
    """A shell without job control ignores SIGINT for its background jobs."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
            signal.raise_signal(number)
            assert supervisor.stop_asked is stops
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_second_sigterm_does_not_hasten_the_stop(
    make: MakeChild, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a SIGTERM goes to the whole process group, the command `make` passes on a second one."""
    child = make("child", serving("child", at_term="kill -TERM $PPID; sleep 0.1; exit 0"))
    with Supervisor(None, stop_timeout_s=NEVER_S) as supervisor:
        supervisor.start([[child]])
        signal.raise_signal(signal.SIGTERM)
    assert child.died() == 0
    assert capsys.readouterr().out == ""
