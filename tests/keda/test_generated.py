"""The generated code is what the .proto says, and the .proto is what KEDA's operator speaks."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from google.protobuf import descriptor_pb2

from autoscaler.adapters.keda import externalscaler_pb2 as pb
from tests.conftest import ROOT

PROTO: Final = Path("autoscaler/adapters/keda/externalscaler.proto")


def generate(proto: Path, root: Path, out: Path, *more: str) -> None:
    outputs = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(root), *outputs, *more, str(proto)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["externalscaler_pb2.py", "externalscaler_pb2.pyi", "externalscaler_pb2_grpc.py"])
def test_the_committed_code_is_what_the_compiler_makes_of_the_proto(tmp_path: Path, name: str) -> None:
    generate(PROTO, ROOT, tmp_path)

    assert (ROOT / PROTO.parent / name).read_text() == (tmp_path / PROTO.parent / name).read_text()


def fields(file: descriptor_pb2.FileDescriptorProto) -> list[tuple[str, str, int, int, int, str]]:
    """All that the wire depends on."""
    return [
        (message.name, field.name, field.number, field.label, field.type, field.type_name)
        for message in file.message_type
        for field in message.field
    ]


def calls(file: descriptor_pb2.FileDescriptorProto) -> list[tuple[str, str, str, bool, bool]]:
    (service,) = file.service
    return [
        (call.name, call.input_type, call.output_type, call.client_streaming, call.server_streaming)
        for call in service.method
    ]


@pytest.mark.needs("keda-module")
def test_messages_fields_and_calls_are_kedas(tmp_path: Path, keda_module: Path) -> None:
    copied = tmp_path / "externalscaler.proto"
    shutil.copy(keda_module / "pkg/scalers/externalscaler/externalscaler.proto", copied)
    generate(Path(copied.name), tmp_path, tmp_path, f"--descriptor_set_out={tmp_path / 'set'}")
    (theirs,) = descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "set").read_bytes()).file
    ours = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(ours)

    assert ours.package == theirs.package
    assert fields(ours) == fields(theirs)
    assert calls(ours) == calls(theirs)
