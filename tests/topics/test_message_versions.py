"""Messages with versions: Kafka's own definitions, in every version, written and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.location import BufferOrigin, DecodeError
from kfmt_cli.core.layout.protocol_types import (
    Bool,
    DeclaredBytes,
    DeclaredListType,
    Float64,
    ListWireType,
    String,
    StructWireType,
    TextWireType,
    UInt16,
    UuidType,
    UuidWireType,
)
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import (
    COMPACT,
    BytesWireType,
    Int8,
    Int16,
    Int32,
    Int64,
    IntegerWireType,
    UInt32,
    WireType,
)
from kfmt_cli.core.uuids import format_uuid
from tools.kafka import ROOT

# The fields of each message in each version, as Kafka generates them.
REFERENCE = json.loads((ROOT / "tests/reference/kafka_messages_4.4.json").read_text())
WIRE_TYPES: dict[str, WireType] = {
    integer.name: integer
    for integer in (Int8, Int16, Int32, Int64, UInt16, UInt32, Bool, Float64, UuidType)
}


def reference_layout(name: str, fields: list[dict[str, Any]]) -> Layout:
    """The Layout of a version in the reference."""
    layout_fields = []
    tagged: TaggedFields | None = None
    for field in fields:
        if "tagged" in field:
            field_by_tag = {
                int(tag): _field(tagged_field) for tag, tagged_field in field["tagged"].items()
            }
            tagged = TaggedFields(field_by_tag)
        else:
            layout_fields.append(_field(field))
    return Layout(name, "", "", tuple(layout_fields), tagged_fields=tagged)


def _field(field: dict[str, Any]) -> Field:
    type_words = field["type"].split("_")
    compact, nullable = "compact" in type_words, "nullable" in type_words
    wire_type: WireType
    if type_words[-1] == "struct":
        wire_type = StructWireType(reference_layout(field["name"], field["fields"]))
    elif type_words[-1] == "string":
        wire_type = TextWireType(COMPACT if compact else Int16, nullable)
    elif type_words[-1] == "bytes":
        wire_type = BytesWireType(COMPACT if compact else Int32, nullable)
    else:
        wire_type = WIRE_TYPES[type_words[-1]]
    array_type = field.get("array")
    if array_type is not None:
        wire_type = ListWireType(
            COMPACT if "compact" in array_type else Int32, wire_type, "nullable" in array_type
        )
    return Field(field["name"], wire_type, "")


def messages() -> Iterator[Layout]:
    """Every message of the reference in every version."""
    for name, message in REFERENCE.items():
        for version, fields in message["versions"].items():
            yield reference_layout(f"{name} {version}", fields)


def wire_values(wire_type: WireType) -> st.SearchStrategy[Any]:
    """Values of a wire type."""
    values: st.SearchStrategy[Any]
    if isinstance(wire_type, IntegerWireType):
        n_bits = 8 * wire_type.size
        low, high = (
            (-(1 << n_bits - 1), (1 << n_bits - 1) - 1)
            if wire_type.signed
            else (0, (1 << n_bits) - 1)
        )
        return st.integers(low, high)
    if wire_type is Bool:
        return st.booleans()
    if wire_type is Float64:
        return st.floats(allow_nan=False)
    if isinstance(wire_type, UuidWireType):
        return st.binary(min_size=16, max_size=16).map(format_uuid)
    if isinstance(wire_type, StructWireType):
        return (
            st.none() | layout_rows(wire_type.layout)
            if wire_type.nullable
            else layout_rows(wire_type.layout)
        )
    if isinstance(wire_type, TextWireType):
        values = st.text(max_size=20)
    elif isinstance(wire_type, BytesWireType):
        values = st.binary(max_size=20)
    else:
        assert isinstance(wire_type, ListWireType)
        values = st.lists(wire_values(wire_type.element_type), max_size=3)
    return st.none() | values if wire_type.nullable else values


def layout_rows(layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    """Rows of a layout, with some of its tagged fields."""
    fields = {field.name: wire_values(field.type) for field in layout.fields}
    if layout.tagged_fields is None:
        return st.fixed_dictionaries(fields)
    optional = {
        tagged.name: wire_values(tagged.type)
        for tagged in layout.tagged_fields.field_by_tag.values()
    }
    return st.fixed_dictionaries(fields, optional=optional)


@pytest.mark.parametrize("layout", list(messages()), ids=lambda item: item.name.replace(" ", "-"))
def test_every_message_of_kafka_is_written_and_read_back(layout: Layout) -> None:
    @settings(max_examples=8, deadline=None)
    @given(layout_rows(layout), st.data())
    def check(values: dict[str, Any], data: st.DataObject) -> None:
        encoded = layout.encode_row(values)
        assert layout.read_row(encoded, 0, len(encoded), BufferOrigin("x")) == (
            values,
            len(encoded),
        )
        tree = read_field_tree(layout, encoded, 0, len(encoded))
        assert tree.is_complete
        assert tree.end == len(encoded)
        position = data.draw(st.integers(0, max(len(encoded) - 1, 0)))
        truncated_tree = read_field_tree(layout, encoded, 0, position)
        assert truncated_tree.end <= position or not encoded
        corrupt = bytearray(encoded)
        if corrupt:
            corrupt[position] ^= data.draw(st.integers(1, 255))
        try:
            layout.read_row(bytes(corrupt), 0, len(corrupt), BufferOrigin("x"))
        except DecodeError as error:
            assert not read_field_tree(layout, bytes(corrupt), 0, len(corrupt)).is_complete
            assert error.reason  # noqa: PT017

    check()


MEMBER = Layout(
    "Member", "", "", (Field("id", String, ""), Field("tags", DeclaredBytes, "", since=1))
)
MESSAGE = Layout(
    "Message",
    "",
    "",
    (
        Field("offset", Int64, "The offset."),
        Field("epoch", Int32, "", since=1),
        Field("expires", Int64, "", since=1, until=1),
        Field("note", String, "", nullable_since=2),
        Field("members", DeclaredListType(MEMBER), ""),
        Field("topic_id", UuidType, "", since=3, tag=0, tagged_since=3),
    ),
    versions=(0, 3),
    flexible_since=3,
)


def test_a_version_has_the_fields_that_the_notation_says() -> None:
    names = {
        version: [field.name for field in layout_at_version(MESSAGE, version).fields]
        for version in range(4)
    }
    assert names[0] == ["offset", "note", "members"]
    assert names[1] == ["offset", "epoch", "expires", "note", "members"]
    assert names[2] == names[3] == ["offset", "epoch", "note", "members"]
    first_version, last_version = layout_at_version(MESSAGE, 0), layout_at_version(MESSAGE, 3)
    member: dict[str, Any] = {"id": "a"}
    values: dict[str, Any] = {"offset": 1, "note": "x", "members": [member]}
    assert first_version.encode_row(values) == bytes(7) + b"\1\0\1x\0\0\0\1\0\1a"
    member = {"id": "a", "tags": b"t"}
    values = {
        "offset": 1,
        "epoch": 2,
        "note": None,
        "members": [member],
        "topic_id": format_uuid(bytes(16)),
    }
    data = bytes(7) + b"\1\0\0\0\2\0\2\2a\2t\0\1\0\x10" + bytes(16)
    assert last_version.encode_row(values) == data
    assert last_version.read_row(data, 0, len(data), BufferOrigin("x")) == (values, len(data))
    with pytest.raises(ValueError, match="versions 0 to 3, not 4"):
        layout_at_version(MESSAGE, 4)


def test_tagged_fields_that_are_not_known_are_kept() -> None:
    layout = layout_at_version(MESSAGE, 3)
    values: dict[str, Any] = {
        "offset": 1,
        "epoch": 2,
        "note": None,
        "members": [],
        "unknown_tagged_fields": {"7": b"later"},
    }
    data = layout.encode_row(values)
    assert layout.read_row(data, 0, len(data), BufferOrigin("x")) == (values, len(data))


def leaves(node: FieldNode) -> Iterator[FieldNode]:
    """The fields without children except their length."""
    if not node.children or node.children[0].name == "length":
        yield node
        return
    for child in node.children:
        yield from leaves(child)


def test_a_tree_shows_the_fields_before_an_error() -> None:
    layout = layout_at_version(MESSAGE, 0)
    data = layout.encode_row({"offset": 1, "note": "abc", "members": [{"id": "a"}, {"id": "b"}]})
    expected = [
        (leaf.name, leaf.start, leaf.end, leaf.value)
        for leaf in leaves(read_field_tree(layout, data, 0, len(data)))
    ]
    assert expected[0] == ("offset", 0, 8, 1)
    assert expected[-1] == ("id", len(data) - 3, len(data), "b")
    truncated_tree = read_field_tree(layout, data, 0, len(data) - 1)
    actual = list(leaves(truncated_tree))
    assert [(node.name, node.start, node.end, node.value) for node in actual[:-1]] == expected[:-1]
    assert actual[-1].error == "length 1, but no bytes are left"


def test_the_kernel_refuses_what_it_cannot_run_when_the_layout_is_made() -> None:
    Layout("Fine", "", "", (Field("a", Int32, ""), Field("b", BytesWireType(Int32), "")), bulk=True)
    with pytest.raises(
        TypeError, match=r"Bad\.text: TextWireType is not a type that the bulk kernel supports"
    ):
        Layout("Bad", "", "", (Field("text", TextWireType(Int16), ""),), bulk=True)
