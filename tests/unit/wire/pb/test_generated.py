"""The committed protobuf module matches its .proto, and can be loaded beside other copies of Pulsar's protocol."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from vela.wire.pb import vela_pulsar_pb2 as pb

ROOT = Path(__file__).parents[4]


def test_the_generated_module_is_up_to_date(tmp_path: Path) -> None:
    out = tmp_path / "descriptors"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            "--proto_path=.",
            f"--descriptor_set_out={out}",
            "vela/wire/pb/vela_pulsar.proto",
        ],
        cwd=ROOT,
        check=True,
    )
    (compiled,) = FileDescriptorSet.FromString(out.read_bytes()).file
    committed = type(compiled).FromString(pb.DESCRIPTOR.serialized_pb)
    for descriptor in (compiled, committed):
        for message in descriptor.message_type:
            for field in message.field:
                field.ClearField("json_name")
    assert committed == compiled, "run the command in vela/wire/binary/README.md"


def test_every_body_has_the_number_of_its_type() -> None:
    names = {number: name for name, number in pb.BaseCommand.Type.items()}
    for field in pb.BaseCommand.DESCRIPTOR.fields[1:]:
        assert field.number in names
        assert field.message_type is not None
        assert field.message_type.name.startswith("Command")


def test_the_module_can_be_imported_beside_another_copy_of_the_protocol() -> None:
    assert pb.DESCRIPTOR.package == "vela.wire.pb"
    assert pb.DESCRIPTOR.name == "vela/wire/pb/vela_pulsar.proto"
