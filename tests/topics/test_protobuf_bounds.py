"""Protobuf: small descriptors and messages that would decode to large values."""

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
LONG_NAME = "n" * 20_000
ReadMessage = Callable[[bytes], Any]


def descriptors() -> Any:
    """The file a.proto with the messages of the bombs."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="a.proto", package="p", syntax="proto2")
    file.enum_type.add(name="Enum").value.add(name=LONG_NAME, number=0)

    def add_field(message: Any, name: str, type_: int, label: int, type_name: str = "") -> None:
        number = len(message.field) + 1
        message.field.add(
            name=name, number=number, type=type_, label=label, type_name=type_name or None
        )

    def add_message(name: str, type_: int, type_name: str = "") -> Any:
        message_type = file.message_type.add(name=name)
        add_field(message_type, "f", type_, REPEATED, type_name)
        return message_type

    add_field(add_message("Self", MESSAGE, ".p.Self"), LONG_NAME, INT32, OPTIONAL)
    add_message("Group", GROUP, ".p.Group")
    add_message("Numbers", INT32)
    add_message("Enums", ENUM, ".p.Enum")
    entry = add_message("Map", MESSAGE, ".p.Map.FEntry").nested_type.add(name="FEntry")
    entry.options.map_entry = True
    add_field(entry, "key", INT32, OPTIONAL)
    add_field(entry, "value", MESSAGE, OPTIONAL, ".p.Map")
    for i in range(5000):
        add_message(f"M{i}", MESSAGE, f".p.M{i + 1}")
    add_message("M5000", INT32)
    return files


def encode_varint(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def nested_messages(depth: int) -> bytes:
    value = b""
    for _ in range(depth):
        value = b"\x0a" + encode_varint(len(value)) + value
    return value


def packed_numbers(count: int) -> bytes:
    return b"\x0a" + encode_varint(count) + bytes(count)


def map_entries(count: int) -> bytes:
    """Entries of a map, each with another key of four bytes and an empty value."""
    return b"".join(b"\x0a\x07\x08" + encode_varint(i | 1 << 21) + b"\x12\0" for i in range(count))


@pytest.fixture(scope="module")
def descriptor_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("descriptors") / "7.desc"
    path.write_bytes(descriptors().SerializeToString())
    return path


@pytest.fixture
def reader(descriptor_file: Path) -> Callable[[str], ReadMessage]:
    """Create the reader of a message."""
    return lambda name: PAYLOAD_FORMATS["protobuf"].create_reader(
        SchemaSource(descriptor_file, name)
    )


TOO_MANY_VALUES, REPEATED_NAMES = "too many values", "repeats names"
NESTED_TOO_DEEPLY = "MaxDepth|corrupt"  # messages of the library
DECODING_BOMBS: dict[str, tuple[str, bytes, str]] = {
    "10,000 levels": ("Self", nested_messages(10_000), NESTED_TOO_DEEPLY),
    "groups": ("Group", b"\x0b" * 10_000 + b"\x0c" * 10_000, NESTED_TOO_DEEPLY),
    "unknown groups": ("Group", b"\x13" * 10_000 + b"\x14" * 10_000, NESTED_TOO_DEEPLY),
    "empty messages": ("Self", b"\x0a\0" * 2_000_000, TOO_MANY_VALUES),
    "empty groups": ("Group", b"\x0b\x0c" * 2_000_000, TOO_MANY_VALUES),
    "packed numbers": ("Numbers", packed_numbers(10_000_000), TOO_MANY_VALUES),
    "a map": ("Map", map_entries(1_100_000), TOO_MANY_VALUES),
    "a long symbol": ("Enums", packed_numbers(1000), REPEATED_NAMES),
    "a long name": ("Self", b"\x0a\x02\x10\0" * 1000, REPEATED_NAMES),
    "100 MB": ("Numbers", packed_numbers(100_000_000), "at most 16777216 are decoded"),
}


@pytest.mark.parametrize("bomb", DECODING_BOMBS)
def test_a_message_beyond_the_budget_is_refused(
    bomb: str, reader: Callable[[str], ReadMessage]
) -> None:
    name, data, expected_text = DECODING_BOMBS[bomb]
    start_seconds = time.process_time()
    with pytest.raises(ValueError, match=expected_text):
        reader(f"p.{name}")(data)
    assert time.process_time() - start_seconds < 10


def test_a_message_within_the_budget_is_read(reader: Callable[[str], ReadMessage]) -> None:
    assert len(reader("p.Self")(b"\x0a\0" * 1000)["f"]) == 1000
    assert reader("p.Self")(b"\x0a\x02\x10\x05") == {"f": [{LONG_NAME: 5}]}
    assert reader("p.Enums")(packed_numbers(3)) == {"f": [LONG_NAME] * 3}
    assert len(reader("p.Map")(map_entries(10))["f"]) == 10
    assert str(reader("p.Self")(nested_messages(90))).count("{") == 91


def test_messages_in_an_any_count(tmp_path: Path) -> None:
    from google.protobuf import any_pb2

    files = descriptor_pb2.FileDescriptorSet()
    any_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    (tmp_path / "any.desc").write_bytes(files.SerializeToString())
    read = PAYLOAD_FORMATS["protobuf"].create_reader(
        SchemaSource(tmp_path / "any.desc", "google.protobuf.Any")
    )
    url = "a/google.protobuf.FileDescriptorSet"
    many_messages = any_pb2.Any(type_url=url, value=b"\x0a\0" * 1_000_000)
    with pytest.raises(ValueError, match=TOO_MANY_VALUES):
        read(many_messages.SerializeToString())
    nested_any = any_pb2.Any()
    for _ in range(600):
        nested_any = any_pb2.Any(
            type_url="a/google.protobuf.Any", value=nested_any.SerializeToString()
        )
    with pytest.raises(ValueError, match="recursion"):
        read(nested_any.SerializeToString())


def test_types_with_too_many_levels_are_reported(descriptor_file: Path) -> None:
    with pytest.raises(UsageError, match=r"p\.M0 has too many levels"):
        PAYLOAD_FORMATS["protobuf"].create_reader(SchemaSource(descriptor_file, "p.M0"))
    read = PAYLOAD_FORMATS["confluent"].create_reader(
        SchemaSource(directory=descriptor_file.parent)
    )
    with pytest.raises(ValueError, match="too many levels"):
        read(b"\0\0\0\0\x07\x02" + encode_varint(2 * 5))


@pytest.mark.parametrize(
    ("indexes", "expected_text"),
    [
        (b"\x02\x01", r"no message \[-1\]"),
        (b"\x01", "cannot have -1 indexes"),
        (encode_varint(2 << 20) + bytes(1 << 20), "cannot have 1048576 indexes"),
        (b"\x04\0\0", r"no message \[0, 0\]"),
    ],
    ids=["one of -1", "-1", "many", "none so deep"],
)
def test_invalid_message_indexes_are_reported(
    indexes: bytes, expected_text: str, descriptor_file: Path
) -> None:
    read = PAYLOAD_FORMATS["confluent"].create_reader(
        SchemaSource(directory=descriptor_file.parent)
    )
    with pytest.raises(ValueError, match=expected_text):
        read(b"\0\0\0\0\x07" + indexes)
