"""Which format a payload is taken for, and what the report says about the decoders that failed."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import cramjam
import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.messages.decoders.hexadecimal import hex_dump
from console.messages.decoders.report import Decoded, decode
from console.messages.decoders.schemas import SchemaAt
from console.messages.decoders.tree import tree_of

LIMIT = 100_000
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
DOCUMENT = b'{"id": 7, "note": "k\xc3\xa4se"}'


def decoded(payload: bytes, schema: SchemaAt | None = None, *, is_whole: bool = True) -> Decoded:
    return decode(payload, schema=schema, is_whole=is_whole, most_bytes=LIMIT)


def a_schema(type_: int, definition: Any = None) -> SchemaAt:
    return SchemaAt(
        version=3, type=type_, name="Order", data=json.dumps(definition).encode() if definition else b""
    )


def avro(definition: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(definition), value)
    return out.getvalue()


def tried(found: Decoded) -> dict[str, str]:
    return {attempt.decoder: attempt.why for attempt in found.attempts}


def test_a_payload_is_taken_for_json_else_for_text_else_for_bytes() -> None:
    assert (decoded(DOCUMENT).decoder, decoded(DOCUMENT).value) == ("JSON", {"id": 7, "note": "käse"})
    plain = decoded("käse".encode())
    assert (plain.decoder, plain.text, plain.has_value) == ("text", "käse", False)
    assert tried(plain)["JSON"].startswith("Expecting value")
    binary = decoded(b"\xff\xfe\x00")
    assert (binary.decoder, binary.text) == ("", "")
    assert tried(binary)["text"] == "it is not UTF-8 at byte 0"
    assert tried(decoded(b"a\x01"))["text"] == "it has the control character U+0001 at character 1"


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "snappy": lambda data: bytes(cramjam.snappy.compress(data)),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_payloads_are_decompressed(name: str) -> None:
    packed = COMPRESSED[name](DOCUMENT)
    found = decoded(packed)
    assert (found.decoder, found.data) == (f"{name}, JSON", DOCUMENT)
    assert tried(found) == {name: "", "JSON": ""}
    cut = decoded(packed[:-3])
    assert tried(cut)[name]
    assert cut.data == packed[:-3]
    assert tried(decoded(packed, is_whole=False))[name] == "only the beginning of the body was read"


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz"])
def test_compressed_members_may_follow_one_another(name: str) -> None:
    pack = COMPRESSED[name]
    assert decoded(pack(b"abc") + pack(b"") + pack(b"def")).data == b"abcdef"
    assert tried(decoded(pack(b"abc") + pack(b"def")[:-3]))[name] == "the data ends too early"
    bomb = decoded(pack(bytes(60_000)) * 2)
    assert "unpacks to more than 100" in bomb.attempts[0].why
    assert decoded(pack(b"x") * 1000).data == b"x" * 1000


@pytest.mark.parametrize("name", ["gzip", "xz"])
def test_zeros_between_and_after_compressed_members_are_padding(name: str) -> None:
    pack = COMPRESSED[name]
    assert decoded(pack(b"abc") + bytes(4) + pack(b"def") + bytes(8)).data == b"abcdef"


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz", "zlib"])
@pytest.mark.parametrize("more", [b"junk", zlib.compress(b"def")])
def test_other_bytes_after_compressed_data_are_reported(name: str, more: bytes) -> None:
    packed = COMPRESSED[name](b"abc")
    found = decoded(packed + more)
    why = f"the compressed data ends at byte {len(packed)}, but other bytes follow"
    assert (tried(found)[name], found.data) == (why, packed + more)


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_decompression_bomb_is_not_decompressed(name: str) -> None:
    bomb = COMPRESSED[name](bytes(100 * LIMIT))
    found = decoded(bomb)
    assert found.data == bomb
    assert "unpacks to more than 100" in found.attempts[0].why


def test_at_most_three_layers_of_compression_are_removed() -> None:
    packed = DOCUMENT
    for _ in range(5):
        packed = gzip.compress(packed)
    assert decoded(packed).decoder == "gzip, gzip, gzip"


def test_the_avro_schema_of_the_topic_decodes_a_payload() -> None:
    payload = avro(ORDER, {"id": 7, "note": "x"})
    found = decoded(payload, a_schema(4, ORDER))
    assert (found.decoder, found.value) == ("Avro schema, version 3", {"id": 7, "note": "x"})
    broken = decoded(payload + b"\x00", a_schema(4, ORDER))
    assert tried(broken)["Avro schema, version 3"] == "1 bytes are left after the record"
    assert tried(decoded(b"", a_schema(4, ORDER)))["Avro schema, version 3"].startswith("EOFError")
    assert decoded(DOCUMENT, a_schema(4, ORDER)).decoder == "JSON"


EMPTY = {"type": "record", "name": "E", "fields": []}


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": fields[name]} for name in fields],
    }


@pytest.mark.parametrize(
    "schema",
    [
        record(all={"type": "array", "items": "null"}),
        record(all={"type": "array", "items": EMPTY}),
        record(all={"type": "array", "items": {**EMPTY, "type": "error"}}),
        record(all={"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
        record(one=["null", EMPTY], all={"type": "array", "items": "E"}),
        record(one=["null", {**EMPTY, "namespace": "n.s"}], all={"type": "array", "items": "n.s.E"}),
        record(all={"type": "map", "values": {"type": "array", "items": {"type": "null"}}}),
        record(all={"type": "array", "items": {**record(a="null"), "name": "N"}}),
        record(
            a=["null", EMPTY],
            b={**record(a="E", b="E"), "name": "B"},
            c={**record(a="B", b="B"), "name": "C"},
        ),
    ],
)
def test_an_avro_payload_cannot_claim_endless_values(schema: Any) -> None:
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    assert "without content" in tried(decoded(endless, a_schema(4, schema)))["Avro schema, version 3"]


def test_an_avro_record_may_contain_itself() -> None:
    tree = record(name="string", next=["null", "R"])
    value = {"name": "a", "next": {"name": "b", "next": None}}
    assert decoded(avro(tree, value), a_schema(4, tree)).value == value
    deep = b"\x00\x02" * 30_000
    assert tried(decoded(deep, a_schema(4, tree)))["Avro schema, version 3"].startswith("RecursionError")
    endless = record(next="R")
    assert tried(decoded(b"", a_schema(4, endless)))["Avro schema, version 3"].startswith("RecursionError")


@pytest.mark.parametrize(
    ("type_", "payload", "value"),
    [
        (1, b"text", "text"),
        (5, b"\x01", True),
        (8, b"\xff\xff\xff\xfe", -2),
        (9, b"\x00" * 7 + b"\x05", 5),
        (11, b"\x3f\xf8" + b"\x00" * 6, 1.5),
    ],
)
def test_primitive_schemas_decode_payloads(type_: int, payload: bytes, value: Any) -> None:
    assert decoded(payload, a_schema(type_)).value == value


def test_schemas_that_cannot_be_read_say_so() -> None:
    assert tried(decoded(b"\x08\x01", a_schema(20)))["Protobuf schema, version 3"] == (
        "this page has no decoder for such schemas"
    )
    assert (
        tried(decoded(b"123", a_schema(8)))["int32 schema, version 3"] == "it has 3 bytes, but a value has 4"
    )
    assert a_schema(99).kind == "type 99"


def test_message_pack_is_recognised() -> None:
    found = decoded(msgspec.msgpack.encode({"a": [1, b"\x00"]}))
    assert (found.decoder, found.value) == ("MessagePack", {"a": [1, b"\x00"]})
    assert tried(decoded(b"\x05"))["MessagePack"] == "it is neither a map nor an array"


def test_the_beginning_of_a_body_is_shown_and_not_parsed() -> None:
    found = decoded("aä".encode()[:2], is_whole=False)
    assert (found.decoder, found.text) == ("text", "a")
    assert tried(found)["JSON"] == "only the beginning of the body was read"


@given(st.binary(max_size=300), st.sampled_from([None, 1, 2, 4, 5, 8, 15, 20]))
def test_any_bytes_get_a_report(payload: bytes, type_: int | None) -> None:
    found = decoded(payload, None if type_ is None else a_schema(type_, ORDER))
    assert found.attempts
    if found.has_value:
        tree_of(found.value, 50)
    hex_dump(found.data)


def test_deep_and_huge_documents_cause_no_fault() -> None:
    for hostile in (b"[" * 100_000, b"\x91" * 100_000, b'{"a":' * 20_000, b"1" * 10_000):
        assert decoded(hostile).attempts
    assert tree_of({"n": 10**5000}, 10).top.inner[0].text == "a number of more than 4,300 digits"


def test_a_tree_is_cut_level_by_level() -> None:
    tree = tree_of({"long": list(range(1000)), "last": "x"}, 10)
    assert [node.name for node in tree.top.inner] == ["long", "last"]
    assert (tree.is_cut, tree.top.inner[0].left_out, tree.top.inner[0].size) == (True, 992, 1000)
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    assert tree_of(deep, 1000).is_cut
    assert not tree_of({"a": [True, None, 1.5, b"\x01"]}, 10).is_cut


def test_a_dump_shows_offsets_bytes_and_characters() -> None:
    assert hex_dump(b"A\x00" + bytes(range(16))).splitlines() == [
        "00000000  41 00 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d  A···············",
        "00000010  0e 0f                                            ··",
    ]
