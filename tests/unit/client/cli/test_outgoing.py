"""What `vela produce` reads: arguments, lines, JSON and files, cut exactly where they end."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.cli.errors import CliError
from vela.cli.outgoing import Outgoing, Source, messages_of
from vela.cli.pipes import lines_of, write_all


def read(source: Source) -> list[Outgoing]:
    async def gather() -> list[Outgoing]:
        return [message async for message in messages_of(source)]

    return asyncio.run(gather())


def of(*arguments: str, files: tuple[str, ...] = (), how: str = "lines") -> list[Outgoing]:
    return read(Source(arguments=arguments, files=files, how=how))


def test_each_argument_is_a_message() -> None:
    assert [each.payload for each in of("a", "ü", "")] == [b"a", "ü".encode(), b""]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"\n", [b""]),
        (b"a\r\nb", [b"a\r", b"b"]),
        (b"\xff\x00\nb", [b"\xff\x00", b"b"]),
    ],
)
def test_each_line_of_a_file_is_a_message(data: bytes, lines: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    source = Source(arguments=(), files=(str(path),), how="lines")
    assert [each.payload for each in read(source)] == lines
    assert source.size_bytes == len(data)
    whole = of(files=(str(path), str(path)), how="whole")
    assert [each.payload for each in whole] == [data, data]


@given(
    st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")), max_size=20),
    st.integers(1, 9),
)
def test_lines_of_a_pipe_do_not_depend_on_how_its_bytes_arrive(lines: list[bytes], piece: int) -> None:
    async def through() -> list[bytes]:
        reading, writing = os.pipe()
        data = b"".join(line + b"\n" for line in lines)

        async def write() -> None:
            for at in range(0, len(data), piece):
                await write_all(writing, data[at : at + piece])
                if at % 3 == 0:
                    await asyncio.sleep(0)
            os.close(writing)

        task = asyncio.create_task(write())
        try:
            return [line async for line in lines_of(reading, most_bytes=20)]
        finally:
            await task
            os.close(reading)

    assert asyncio.run(through()) == lines


@pytest.mark.parametrize("how", ["lines", "json", "whole"])
def test_an_endless_file_is_not_read_to_the_end(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vela.cli.outgoing.MOST_BYTES", 3 << 20)
    with pytest.raises(
        CliError, match=r"/dev/zero.* is larger than 3 MiB, the limit for a message"
    ) as caught:
        of(files=("/dev/zero",), how=how)
    assert caught.value.exit_code == 2


def test_a_message_of_exactly_the_largest_size_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vela.cli.outgoing.MOST_BYTES", 4)
    path = tmp_path / "file"
    path.write_bytes(b"abcd\nefgh\nijkl")
    assert [each.payload for each in of(files=(str(path),))] == [b"abcd", b"efgh", b"ijkl"]
    path.write_bytes(b"abcd")
    assert [each.payload for each in of(files=(str(path),), how="whole")] == [b"abcd"]


def test_a_full_pipe_delays_only_the_writer() -> None:
    async def run() -> int:
        reading, writing = os.pipe()
        writer = asyncio.create_task(write_all(writing, b"x" * 1_000_000))
        turns = 0
        while not writer.done():
            await asyncio.sleep(0)  # other tasks run while the pipe is full
            turns += 1
            if turns % 3 == 0 and select.select([reading], [], [], 0)[0]:
                os.read(reading, 50_000)
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            await write_all(writing, b"x")
        os.close(writing)
        return turns

    assert asyncio.run(run()) > 20


def test_a_json_line_can_set_every_field_of_a_message(tmp_path: Path) -> None:
    path = tmp_path / "file"
    full = {
        "payload": "p", "key": "k", "ordering_key": "o", "properties": {"a": "b"}, "event_ms": 1, "deliver_at_ms": 2,
        "id": "1:0", "topic": "t", "publish_ms": 3, "producer": "x", "sequence_id": 4, "redelivery_count": 5,
        "size_bytes": 6, "payload_base64": None,
    }  # fmt: skip
    binary = {"payload_base64": base64.b64encode(b"\xff").decode()}
    path.write_text(
        f"{json.dumps(full)}\n\n{json.dumps(binary)}\n" + '{"payload": [1, "ü"]}', encoding="utf-8"
    )
    first, second, third = of(files=(str(path),), how="json")
    assert (first.payload, first.key, first.ordering_key, first.properties, first.event_ms, first.deliver_at_ms) == (
        b"p", "k", "o", {"a": "b"}, 1, 2,
    )  # fmt: skip
    assert (second.payload, second.key, third.payload) == (b"\xff", None, '[1, "ü"]'.encode())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2, is not JSON"),
        ("[" * 100_000, "line 2, is not JSON"),
        ("5", "line 2, is not a JSON object; an object can have the members deliver_at_ms, event_ms, key"),
        ('{"payload": "a", "kee": "b"}', "line 2, has the unknown member 'kee'"),
        ("{}", "needs payload or payload_base64"),
        ('{"payload": "a", "payload_base64": "YQ=="}', "and not both"),
        ('{"payload": NaN}', "line 2, is not JSON: NaN is not a number"),
        ('{"payload": [1e999]}', "line 2, has an invalid member 'payload': use values that JSON can express"),
        ('{"payload_base64": "%"}', "line 2, has an invalid member 'payload_base64': use base64 text"),
        ('{"payload_base64": 1234}', "line 2, has an invalid member 'payload_base64': use base64 text"),
        ('{"payload": "a", "key": 5}', "line 2, has an invalid member 'key': use text"),
        ('{"payload": "a", "ordering_key": ["b"]}', "line 2, has an invalid member 'ordering_key': use text"),
        (r'{"payload": "a", "key": "\ud800"}', "line 2, has an invalid member 'key': use text in UTF-8"),
        (
            '{"payload": "a", "event_ms": "5"}',
            "line 2, has an invalid member 'event_ms': use milliseconds since 1970",
        ),
        (
            '{"payload": "a", "event_ms": true}',
            "line 2, has an invalid member 'event_ms': use milliseconds since 1970",
        ),
        (
            '{"payload": "a", "event_ms": -1}',
            "line 2, has an invalid member 'event_ms': use milliseconds since 1970",
        ),
        (
            f'{{"payload": "a", "deliver_at_ms": {2**63}}}',
            "line 2, has an invalid member 'deliver_at_ms': use milliseconds since 1970",
        ),
        ('{"payload": "a", "properties": {"a": 1}}', "line 2, has an invalid member 'properties': use"),
        ('{"payload": "a", "properties": []}', "line 2, has an invalid member 'properties': use"),
        (
            r'{"payload": "a", "properties": {"\udfff": "b"}}',
            "line 2, has an invalid member 'properties': use",
        ),
    ],
)
def test_a_line_that_is_not_a_message_is_named(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(f'{{"payload": "fine"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(CliError) as caught:
        of(files=(str(path),), how="json")
    assert says in caught.value.message
    assert caught.value.exit_code == 2


def test_an_argument_that_is_not_a_message_is_named() -> None:
    with pytest.raises(CliError, match="argument 2 has an invalid member 'event_ms': use milliseconds"):
        of('{"payload": "a", "event_ms": 0}', '{"payload": "a", "event_ms": 0.5}', how="json")


@pytest.mark.parametrize(
    ("make", "says"), [(None, "cannot read {}: No such file"), (Path.mkdir, "{} is a folder")]
)
def test_a_file_that_cannot_be_read_is_named(make: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "there"
    if make:
        make(path)
    with pytest.raises(CliError, match=says.format(path)):
        of(files=(str(path),))
