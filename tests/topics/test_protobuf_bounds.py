"""Protobuf: descriptors and messages that are small, and would become something that is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.errors import UsageError
from kfmt_cli.topics.payloads import PAYLOAD_FORMATS, SchemaSource

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
OPTIONAL, REPEATED = 1, 3
GROUP, MESSAGE, INT32, ENUM = 10, 11, 5, 14
LONG = "n" * 20_000
Reader = Callable[[bytes], Any]


def descriptors() -> Any:
    """The file a.proto with the messages that the bombs are made of."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="a.proto", package="p", syntax="proto2")
    file.enum_type.add(name="Enum").value.add(name=LONG, number=0)

    def add(message: Any, name: str, type_: int, label: int, of: str = "") -> None:
        number = len(message.field) + 1
        message.field.add(name=name, number=number, type=type_, label=label, type_name=of or None)

    def message(name: str, type_: int, of: str = "") -> Any:
        made = file.message_type.add(name=name)
        add(made, "f", type_, REPEATED, of)
        return made

    add(message("Self", MESSAGE, ".p.Self"), LONG, INT32, OPTIONAL)
    message("Group", GROUP, ".p.Group")
    message("Numbers", INT32)
    message("Enums", ENUM, ".p.Enum")
    entry = message("Map", MESSAGE, ".p.Map.FEntry").nested_type.add(name="FEntry")
    entry.options.map_entry = True
    add(entry, "key", INT32, OPTIONAL)
    add(entry, "value", MESSAGE, OPTIONAL, ".p.Map")
    for i in range(5000):
        message(f"M{i}", MESSAGE, f".p.M{i + 1}")
    message("M5000", INT32)
    return files


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def nested(depth: int) -> bytes:
    value = b""
    for _ in range(depth):
        value = b"\x0a" + varint(len(value)) + value
    return value


def packed(count: int) -> bytes:
    return b"\x0a" + varint(count) + bytes(count)


def entries(count: int) -> bytes:
    """Entries of a map, each with another key of four bytes and an empty value."""
    return b"".join(b"\x0a\x07\x08" + varint(i | 1 << 21) + b"\x12\0" for i in range(count))


@pytest.fixture(scope="module")
def descriptor_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("descriptors") / "7.desc"
    path.write_bytes(descriptors().SerializeToString())
    return path


@pytest.fixture
def reader(descriptor_file: Path) -> Callable[[str], Reader]:
    """Makes the reader of a message."""
    return lambda name: PAYLOAD_FORMATS["protobuf"].create_reader(
        SchemaSource(descriptor_file, name)
    )


MANY, NAMES = "too many values", "repeats names"
DEEP = "MaxDepth|corrupt"  # in the words of the library
BOMBS: dict[str, tuple[str, bytes, str]] = {
    "10,000 levels": ("Self", nested(10_000), DEEP),
    "groups": ("Group", b"\x0b" * 10_000 + b"\x0c" * 10_000, DEEP),
    "unknown groups": ("Group", b"\x13" * 10_000 + b"\x14" * 10_000, DEEP),
    "empty messages": ("Self", b"\x0a\0" * 2_000_000, MANY),
    "empty groups": ("Group", b"\x0b\x0c" * 2_000_000, MANY),
    "packed numbers": ("Numbers", packed(10_000_000), MANY),
    "a map": ("Map", entries(1_100_000), MANY),
    "a long symbol": ("Enums", packed(1000), NAMES),
    "a long name": ("Self", b"\x0a\x02\x10\0" * 1000, NAMES),
    "100 MB": ("Numbers", packed(100_000_000), "at most 16777216 are decoded"),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_message_beyond_the_budget_is_refused(what: str, reader: Callable[[str], Reader]) -> None:
    name, data, words = BOMBS[what]
    begin = time.process_time()
    with pytest.raises(ValueError, match=words):
        reader(f"p.{name}")(data)
    assert time.process_time() - begin < 10


def test_a_message_within_the_budget_is_read(reader: Callable[[str], Reader]) -> None:
    assert len(reader("p.Self")(b"\x0a\0" * 1000)["f"]) == 1000
    assert reader("p.Self")(b"\x0a\x02\x10\x05") == {"f": [{LONG: 5}]}
    assert reader("p.Enums")(packed(3)) == {"f": [LONG] * 3}
    assert len(reader("p.Map")(entries(10))["f"]) == 10
    assert str(reader("p.Self")(nested(90))).count("{") == 91


def test_messages_in_an_any_count(tmp_path: Path) -> None:
    from google.protobuf import any_pb2

    files = descriptor_pb2.FileDescriptorSet()
    any_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    (tmp_path / "any.desc").write_bytes(files.SerializeToString())
    read = PAYLOAD_FORMATS["protobuf"].create_reader(
        SchemaSource(tmp_path / "any.desc", "google.protobuf.Any")
    )
    url = "a/google.protobuf.FileDescriptorSet"
    wide = any_pb2.Any(type_url=url, value=b"\x0a\0" * 1_000_000)
    with pytest.raises(ValueError, match=MANY):
        read(wide.SerializeToString())
    deep = any_pb2.Any()
    for _ in range(600):
        deep = any_pb2.Any(type_url="a/google.protobuf.Any", value=deep.SerializeToString())
    with pytest.raises(ValueError, match="recursion"):
        read(deep.SerializeToString())


def test_types_in_a_long_row_are_said(descriptor_file: Path) -> None:
    with pytest.raises(UsageError, match=r"p\.M0 has too many levels"):
        PAYLOAD_FORMATS["protobuf"].create_reader(SchemaSource(descriptor_file, "p.M0"))
    read = PAYLOAD_FORMATS["confluent"].create_reader(
        SchemaSource(directory=descriptor_file.parent)
    )
    with pytest.raises(ValueError, match="too many levels"):
        read(b"\0\0\0\0\x07\x02" + varint(2 * 5))


@pytest.mark.parametrize(
    ("indexes", "words"),
    [
        (b"\x02\x01", r"no message \[-1\]"),
        (b"\x01", "cannot have -1 indexes"),
        (varint(2 << 20) + bytes(1 << 20), "cannot have 1048576 indexes"),
        (b"\x04\0\0", r"no message \[0, 0\]"),
    ],
    ids=["one of -1", "-1", "many", "none so deep"],
)
def test_indexes_of_no_message_are_said(indexes: bytes, words: str, descriptor_file: Path) -> None:
    read = PAYLOAD_FORMATS["confluent"].create_reader(
        SchemaSource(directory=descriptor_file.parent)
    )
    with pytest.raises(ValueError, match=words):
        read(b"\0\0\0\0\x07" + indexes)
