"""Options of the message commands, and how a message is printed."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from tests.support.waiting import until
from tests.unit.client.cli.conftest import Vela
from tests.unit.client.cli.fake_console import FakeConsole
from vela.aio import Reader
from vela.cli.commands.read import _read
from vela.cli.errors import CliError
from vela.cli.printing import Printing
from vela.cli.start import SEEK_TO, Start
from vela.cli.text.message_format import id_text, message_json, printer
from vela.message import Message, MessageId, ReceivedEntry
from vela.wire.entry import decode_messages, encode_single


def a_message(payload: bytes) -> Message:
    data = encode_single(
        producer_name="p", sequence_id=7, publish_time_ms=5, payload=payload, key="k", properties={"a": "b"}
    )
    (body,) = decode_messages(data, max_message_bytes=1_000_000)
    entry = ReceivedEntry("persistent://public/default/t", 3, 4)
    return Message(body, entry)


@pytest.mark.parametrize(
    ("form", "is_terminal", "printed"),
    [
        ("text", False, b"\xffa\x1b\n"),
        ("text", True, rb"\xffa\x1b" + b"\n"),
        ("raw", True, b"\xffa\x1b"),
        ("hex", True, b"ff611b\n"),
    ],
)
def test_a_payload_is_printed_in_the_chosen_format(form: str, is_terminal: bool, printed: bytes) -> None:
    assert printer(form, is_terminal=is_terminal)(a_message(b"\xffa\x1b")) == printed


def test_json_has_always_the_same_members() -> None:
    text, binary = message_json(a_message("ü".encode())), message_json(a_message(b"\xff"))
    assert list(text) == list(binary)
    assert (text["payload"], text["payload_base64"], text["id"], text["key"]) == ("ü", None, "3:4", "k")
    assert (binary["payload"], binary["payload_base64"]) == (None, "/w==")
    line = printer("json", is_terminal=False)(a_message(b"a\nb"))
    assert (json.loads(line)["payload"], line.count(b"\n")) == ("a\nb", 1)


def test_an_ordering_key_that_is_not_utf8_is_printed_as_json() -> None:
    data = encode_single(
        producer_name="p", sequence_id=7, publish_time_ms=5, payload=b"x", ordering_key=b"a\xff"
    )
    (body,) = decode_messages(data, max_message_bytes=1_000_000)
    line = printer("json", is_terminal=False)(Message(body, ReceivedEntry("t", 3, 4)))
    assert json.loads(line)["ordering_key"].encode(errors="surrogateescape") == b"a\xff"


def test_ids_are_printed_as_the_acts_take_them() -> None:
    assert id_text(MessageId(-1, 5, 3, -1)) == "5:3"
    assert id_text(MessageId(2, 5, 3, 1)) == "5:3:2:1"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(word="earliest")),
        ("latest", Start(word="latest")),
        ("5:3", Start(id=(-1, 5, 3, -1))),
        ("5:3:1", Start(id=(-1, 5, 3, 1))),
        ("5:3:-1:1", Start(id=(-1, 5, 3, 1))),
        ("5:3:2:1", Start(id=(2, 5, 3, 1))),
        ("1767225600000", Start(time_ms=1_767_225_600_000)),
        ("2026-01-01T00:00:00+00:00", Start(time_ms=1_767_225_600_000)),
    ],
)
def test_a_place_is_read_from_its_text(text: str, start: Start) -> None:
    assert SEEK_TO.convert(text, None, None) == start
    target = start.target()
    assert target == start.time_ms or isinstance(target, MessageId)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("produce t --chunking m", "--chunking needs --no-batching"),
        ("produce t --ids --json m", "not both"),
        ("produce t -p x m", "write it as NAME=VALUE"),
        ("produce t --deliver-at 2026-01-01T00:00 --deliver-after 1s m", "not both"),
        ("produce t --rate 0 m", "not in the range"),
        ("produce t --rate nan m", "'nan' is not a finite number"),
        ("produce t --rate inf m", "'inf' is not a finite number"),
        ("bench --seconds nan", "'nan' is not a finite number"),
        ("bench --seconds 1e999", "'1e999' is not a finite number"),
        ("produce t --compression gzip m", "is not one of"),
        ("produce a/b m", "is not a topic name"),
        ("consume t s --seek soon", "is not a place: write earliest, latest"),
        ("consume t s --count 0", "not in the range"),
        ("consume t s --type Exclusiv", "is not one of"),
        ("consume t", "Missing argument 'SUBSCRIPTION'"),
        ("read t --from soon", "is not a place: write earliest, latest"),
        ("read t --from 1767225600", "looks like seconds since 1970: write milliseconds, 1767225600000"),
        ("read t --timeout 1s", "--timeout needs --follow"),
        ("produce t m --event-time 1000", "'1000' is too short a number for a time"),
    ],
)
def test_a_wrong_command_line_opens_no_connection(
    line: str, says: str, vela: Vela, console: FakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(*_: object) -> None:
        raise AssertionError("it tried")

    monkeypatch.setattr("vela.cli.commands.produce.run_with_client", connected)
    monkeypatch.setattr("vela.cli.commands.consume.run_with_client", connected)
    monkeypatch.setattr("vela.cli.commands.read.run_with_client", connected)
    monkeypatch.setattr("vela.cli.commands.bench.run_with_client", connected)
    done = vela(line)
    assert (done.exit_code, says in " ".join(done.stderr.split())) == (2, True), done.output


@pytest.mark.parametrize(
    ("most", "written", "is_enough"), [(None, 0, False), (None, 1, True), (3, 2, False), (3, 3, True)]
)
def test_fewer_messages_than_asked_for_is_exit_code_3(
    most: int | None, written: int, is_enough: bool
) -> None:
    printing = Printing(form="text", most=most, written=written)
    if is_enough:
        printing.require_enough()
        return
    with pytest.raises(CliError) as caught:
        printing.require_enough()
    assert caught.value.exit_code == 3


class SilentReader:
    """A reader of a topic with one more message, which the broker sends once `_read` has said that it waits."""

    def __init__(self) -> None:
        self.has_more = True
        self.asked = False
        self.message: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def has_message_available(self) -> bool:
        return self.has_more

    async def read_next(self, timeout_ms: int | None) -> Message:
        self.asked = True
        message = await self.message
        self.has_more = False
        return message


async def test_read_says_that_it_waits_for_messages_that_the_topic_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, said = SilentReader(), list[str]()

    def remember(text: str) -> None:
        said.append(text)
        reader.message.set_result(a_message(b"late"))

    monkeypatch.setattr("vela.cli.commands.read.say", remember)
    monkeypatch.setattr("vela.cli.commands.read._SILENT_S", 0.0)
    printing = Printing(form="text", most=None)
    await asyncio.wait_for(_read(cast(Reader, reader), printing, follows=False, timeout_ms=None), 10)
    assert [text.partition(":")[0] for text in said] == ["waiting"]
    assert printing.written == 1


async def test_an_interrupted_read_leaves_no_call_behind() -> None:
    """Otherwise the call would fail when the reader closes, and asyncio would print that nobody looked at the error."""
    reader = SilentReader()
    printing = Printing(form="text", most=None)
    reading = asyncio.create_task(_read(cast(Reader, reader), printing, follows=False, timeout_ms=None))
    await until(lambda: reader.asked, "the call")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert reader.message.cancelled()
