"""Every field that a file stores is in the output, with its stored value."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli import formats
from kfmt_cli.commands.format.command import iter_format_chapters
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.location import BufferOrigin
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH, RECORD_HEADER
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, END_TXN_MARKER
from kfmt_cli.formats.index import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.formats.legacy import MESSAGE_V0, MESSAGE_V1
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE
from tests.core.test_layouts import LAYOUTS
from tests.support.samples import ORDERS, TXN, UPGRADED, Row, kfmt
from tests.topics.test_messages import MESSAGES
from tools.kafka import SAMPLES

V1_LOG = SAMPLES / "kafka-2.8.2/v1-none-0/00000000000000000000.log"
# Fields that have another name in a row.
COLUMN_NAMES: dict[Layout, dict[str, str]] = {
    MESSAGE_V0: {"offset": "last_offset", "message_size": "batch_length"},
    MESSAGE_V1: {
        "offset": "last_offset",
        "message_size": "batch_length",
        "timestamp": "max_timestamp",
    },
}
# Fields that no row has, and the reason.
OMITTED_FIELDS: dict[Layout, dict[str, str]] = {
    RECORD: {
        "length": "the distance to the next record's position",
        "attributes": "Kafka uses none of its bits",
    },
    END_TXN_MARKER: {"version": "that of the key is shown; a broker writes the same in both"},
    PRODUCER_SNAPSHOT: {
        "version": "every row has the fields of version 1",
        "crc": "a wrong one is a finding",
        "producers_count": "a wrong one is a finding; it is the number of rows",
    },
}


def all_layouts() -> Iterator[Layout]:
    """Every Layout of the package `formats` that is not nested in another."""
    for module in pkgutil.iter_modules(formats.__path__):
        names = vars(importlib.import_module(f"kfmt_cli.formats.{module.name}"))
        layouts = {name: value for name, value in names.items() if isinstance(value, Layout)}
        yield from (layout for name, layout in layouts.items() if not name.startswith("_"))


def test_every_layout_is_tested_and_documented() -> None:
    # The Layout of the file is shown instead.
    names = {layout.name for layout in all_layouts()} - {"QuorumStateData"}
    documented = {layout.name for chapter in iter_format_chapters() for layout in chapter.layouts}
    assert names <= documented
    nested = {RECORD_HEADER.name}
    decoded_by_topics = {
        "RecordType",
        "RecordVersion",
        "RecordEnvelope",
    }
    text_layouts = {
        layout.name
        for text_chapter in iter_format_chapters()
        for layout in text_chapter.layouts
        if layout.is_text
    }
    assert documented - nested - decoded_by_topics - text_layouts == {
        layout.name for layout in LAYOUTS
    } | (set(MESSAGES) - {"QuorumStateData"})


def stored_values(layout: Layout, file: Path, position: int = 0) -> dict[str, Any]:
    """The values that the reader finds at a position of a file."""
    data = file.read_bytes()
    return layout.read_row(data, position, len(data), BufferOrigin(file.name))[0]


def check(layout: Layout, values: dict[str, Any], row: Row) -> None:
    """Check that each field except the omitted ones is in the row with its stored value."""
    omitted = OMITTED_FIELDS.get(layout, {})
    assert set(omitted) <= set(values), "an excuse for a field that is not there"
    for name, value in values.items():
        if name not in omitted:
            row_value = row[COLUMN_NAMES.get(layout, {}).get(name, name)]
            if name == "attributes":
                row_value = row_value["raw"]
            text = value.decode() if isinstance(value, bytes) else value
            assert row_value == text, f"{layout.name}.{name}"


def dumped_rows(file: Path, *options: str) -> list[Row]:
    return kfmt("dump", file, "--json", *options).rows


@pytest.mark.parametrize(
    ("layout", "file"),
    [
        (RECORD_BATCH, TXN),
        (OFFSET_INDEX_ENTRY, ORDERS.with_suffix(".index")),
        (TIME_INDEX_ENTRY, ORDERS.with_suffix(".timeindex")),
        (ABORTED_TRANSACTION, TXN.with_suffix(".txnindex")),
    ],
    ids=lambda item: item.name,
)
def test_every_field_of_the_first_row_is_shown(layout: Layout, file: Path) -> None:
    check(layout, stored_values(layout, file), dumped_rows(file)[0])


@pytest.mark.parametrize(("layout", "file"), [(MESSAGE_V0, UPGRADED), (MESSAGE_V1, V1_LOG)])
def test_every_field_of_an_old_message_is_shown(layout: Layout, file: Path) -> None:
    batch, record = dumped_rows(file, "--records")[:2]
    check(layout, stored_values(layout, file), {**record, **batch})


def test_every_field_of_a_producer_snapshot_is_shown() -> None:
    file = TXN.with_name("00000000000000000357.snapshot")
    header = stored_values(PRODUCER_SNAPSHOT, file)
    states = dumped_rows(file)
    assert len(states) == header["producers_count"]
    size = PRODUCER_SNAPSHOT.dtype.itemsize
    check(PRODUCER_STATE, stored_values(PRODUCER_STATE, file, size), states[0])
    check(PRODUCER_SNAPSHOT, header, {})


def test_every_field_of_a_record_is_shown() -> None:
    batch, *records = dumped_rows(ORDERS, "--records")[:4]
    position = records[1]["position"]
    values = stored_values(RECORD, ORDERS, position)
    row = dict(records[1])
    row["timestamp_delta"] = row["timestamp"] - batch["base_timestamp"]
    row["offset_delta"] = row["offset"] - batch["base_offset"]
    headers = values.pop("headers")
    assert len(headers) == len(row["headers"])
    for header, row_header in zip(headers, row["headers"], strict=True):
        check(RECORD_HEADER, header, row_header)
    check(RECORD, values, row)
    record_with_headers = next(record for record in records if record["headers"])
    assert set(record_with_headers["headers"][0]) >= {field.name for field in RECORD_HEADER.fields}


def test_every_field_of_a_marker_is_shown() -> None:
    marker = next(row for row in dumped_rows(TXN, "--records") if "control" in row)
    record = stored_values(RECORD, TXN, marker["position"])
    key, value = record["key"], record["value"]
    key_fields, _ = CONTROL_RECORD_KEY.read_row(key, 0, len(key), BufferOrigin("key"))
    value_fields, _ = END_TXN_MARKER.read_row(value, 0, len(value), BufferOrigin("value"))
    marker_type = {0: "ABORT", 1: "COMMIT"}[int(str(key_fields["type"]))]
    check(CONTROL_RECORD_KEY, {**key_fields, "type": marker_type}, marker["control"])
    check(END_TXN_MARKER, dict(value_fields), marker["control"])
    assert value_fields["version"] == marker["control"]["version"]


def test_every_bit_of_the_attributes_has_a_name_in_the_output() -> None:
    for layout in (RECORD_BATCH, MESSAGE_V0, MESSAGE_V1):
        (field,) = (field for field in layout.fields if field.flags)
        attributes = dumped_rows(TXN)[0]["attributes"]
        assert {bits.name for bits in field.flags} <= set(attributes)
