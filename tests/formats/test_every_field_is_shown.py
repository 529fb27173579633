"""No field that a file stores is left out of the output, and each is shown as it is stored."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli import formats
from kfmt_cli.commands.format.command import format_chapters
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

V1 = SAMPLES / "kafka-2.8.2/v1-none-0/00000000000000000000.log"
# What stands in a row under another name, and what follows from it and the batch's header.
NAMES: dict[Layout, dict[str, str]] = {
    MESSAGE_V0: {"offset": "last_offset", "message_size": "batch_length"},
    MESSAGE_V1: {
        "offset": "last_offset",
        "message_size": "batch_length",
        "timestamp": "max_timestamp",
    },
}
# What no row has, and why.
NOT_SHOWN: dict[Layout, dict[str, str]] = {
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
    """Every Layout of the package `formats` that is no part of another."""
    for module in pkgutil.iter_modules(formats.__path__):
        names = vars(importlib.import_module(f"kfmt_cli.formats.{module.name}"))
        layouts = {name: value for name, value in names.items() if isinstance(value, Layout)}
        yield from (layout for name, layout in layouts.items() if not name.startswith("_"))


def test_every_layout_is_tested_and_documented() -> None:
    # That of the file is shown.
    names = {layout.name for layout in all_layouts()} - {"QuorumStateData"}
    shown = {layout.name for chapter in format_chapters() for layout in chapter.layouts}
    assert names <= shown
    parts = {RECORD_HEADER.name}  # as a part of the record's
    fronts = {"RecordType", "RecordVersion", "RecordEnvelope"}  # by the decoders of topics
    # By their files.
    text = {layout.name for of in format_chapters() for layout in of.layouts if layout.is_text}
    assert shown - parts - fronts - text == {layout.name for layout in LAYOUTS} | (
        set(MESSAGES) - {"QuorumStateData"}
    )


def stored(layout: Layout, file: Path, at: int = 0) -> dict[str, Any]:
    """What the slow reader finds at a place of a file."""
    data = file.read_bytes()
    return layout.read(data, at, len(data), BufferOrigin(file.name))[0]


def check(layout: Layout, values: dict[str, Any], row: Row) -> None:
    """Each field that is not excused is in the row, with the value that is stored."""
    excused = NOT_SHOWN.get(layout, {})
    assert set(excused) <= set(values), "an excuse for a field that is not there"
    for name, value in values.items():
        if name not in excused:
            shown = row[NAMES.get(layout, {}).get(name, name)]
            if name == "attributes":
                shown = shown["raw"]
            text = value.decode() if isinstance(value, bytes) else value
            assert shown == text, f"{layout.name}.{name}"


def rows(file: Path, *options: str) -> list[Row]:
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
    check(layout, stored(layout, file), rows(file)[0])


@pytest.mark.parametrize(("layout", "file"), [(MESSAGE_V0, UPGRADED), (MESSAGE_V1, V1)])
def test_every_field_of_an_old_message_is_shown(layout: Layout, file: Path) -> None:
    batch, record = rows(file, "--records")[:2]
    check(layout, stored(layout, file), {**record, **batch})


def test_every_field_of_a_producer_snapshot_is_shown() -> None:
    file = TXN.with_name("00000000000000000357.snapshot")
    head = stored(PRODUCER_SNAPSHOT, file)
    states = rows(file)
    assert len(states) == head["producers_count"]
    size = PRODUCER_SNAPSHOT.dtype.itemsize
    check(PRODUCER_STATE, stored(PRODUCER_STATE, file, size), states[0])
    check(PRODUCER_SNAPSHOT, head, {})


def test_every_field_of_a_record_is_shown() -> None:
    batch, *records = rows(ORDERS, "--records")[:4]
    at = records[1]["position"]
    values = stored(RECORD, ORDERS, at)
    row = dict(records[1])
    row["timestamp_delta"] = row["timestamp"] - batch["base_timestamp"]
    row["offset_delta"] = row["offset"] - batch["base_offset"]
    headers = values.pop("headers")
    assert len(headers) == len(row["headers"])
    for header, shown in zip(headers, row["headers"], strict=True):
        check(RECORD_HEADER, header, shown)
    check(RECORD, values, row)
    with_headers = next(record for record in records if record["headers"])
    assert set(with_headers["headers"][0]) >= {field.name for field in RECORD_HEADER.fields}


def test_every_field_of_a_marker_is_shown() -> None:
    marker = next(row for row in rows(TXN, "--records") if "control" in row)
    record = stored(RECORD, TXN, marker["position"])
    key, value = record["key"], record["value"]
    in_key, _ = CONTROL_RECORD_KEY.read(key, 0, len(key), BufferOrigin("key"))
    in_value, _ = END_TXN_MARKER.read(value, 0, len(value), BufferOrigin("value"))
    kind = {0: "ABORT", 1: "COMMIT"}[int(str(in_key["type"]))]
    check(CONTROL_RECORD_KEY, {**in_key, "type": kind}, marker["control"])
    check(END_TXN_MARKER, dict(in_value), marker["control"])
    assert in_value["version"] == marker["control"]["version"]


def test_every_bit_of_the_attributes_has_a_name_in_the_output() -> None:
    for layout in (RECORD_BATCH, MESSAGE_V0, MESSAGE_V1):
        (field,) = (field for field in layout.fields if field.flags)
        shown = rows(TXN)[0]["attributes"]
        assert {bits.name for bits in field.flags} <= set(shown)
