"""The value of a field next to its bytes, and its meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.core.layout.tree import read_field_tree
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.rows.types.anatomy import anatomy_lines, format_value
from kfmt_cli.rows.types.segment_row import names_of_set_bits
from tests.broker.test_state import built, commit, message, record
from tests.support import rebuild
from tests.support.samples import Row, kfmt
from tests.support.segments import write


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        *((None, "x", ""), (b"abc", "x", '"abc"'), (b"", "x", '""'), ("é", "x", '"é"')),
        *((b"a\n", "x", "binary"), (b"\xff", "x", "binary"), ("é".encode(), "x", '"é"')),
        *((0x1F, "crc", "0000001f"), (0xFFFFFFFF, "crc", "ffffffff"), (31, "x", "31")),
        *((0, "attributes", "0x0"), (-1, "attributes", "0xffff"), (0x30, "attributes", "0x30")),
        *((True, "x", "true"), (1.5, "x", "1.5"), ([1, b"\0"], "x", '[1,"AA=="]')),
    ],
)
def test_a_value_as_it_is_shown(value: Any, name: str, expected: str) -> None:
    assert format_value(value, name) == expected


def test_the_error_of_a_null_field_is_shown() -> None:
    layout = layout_at_version(message_layout("BeginTransactionRecord"), 0)
    tagged = bytes([1, 0, 3, 0, 9, 9])  # one field, of three bytes, of which null takes one
    (invalid_line,) = [
        line
        for line in anatomy_lines(read_field_tree(layout, tagged, 0, len(tagged)))
        if line.is_invalid
    ]
    assert (invalid_line.name, invalid_line.display_text, invalid_line.fault) == (
        "name",
        "null",
        "3 bytes declared, 1 used",
    )


def meanings(directory: Path, offset: int) -> dict[str, Any]:
    rows: list[Row] = kfmt(
        "hex", directory / f"{0:020}.log", "--offset", str(offset), "--alone", "--json"
    ).of("field")
    return {row["path"].rpartition(".")[2]: row["meaning"] for row in rows}


def test_what_times_and_numbers_mean(tmp_path: Path) -> None:
    topic = "__consumer_offsets"
    key = message(topic, 1, "key", 0, {"group": "g", "topic": "t", "partition": 0})
    values = {"offset": 7, "metadata": "", "commit_timestamp": 0, "expire_timestamp": -1}
    value = message(topic, 1, "value", 1, values)
    directory = built(tmp_path / f"{topic}-0", [commit(0, 3), record(1, key, value)])
    meaning_by_name = meanings(directory, 0)
    assert meaning_by_name["commit_timestamp"] == "1970-01-01 00:00:00.005"
    meaning_by_name = meanings(directory, 1)
    assert meaning_by_name["commit_timestamp"] == "1970-01-01 00:00:00.000"
    assert meaning_by_name["expire_timestamp"] == "none"
    assert (meaning_by_name["offset"], meaning_by_name["base_offset"]) == (None, None)
    assert meaning_by_name["compression"] == "none"
    assert (meaning_by_name["transactional"], meaning_by_name["timestamp_type"]) == (
        "no",
        "CreateTime",
    )
    assert meaning_by_name["producer_id"] == "none"


@pytest.mark.parametrize(
    ("bits", "names"),
    [(None, []), (0, []), (1, ["a"]), (2, ["b"]), (5, ["a", "c"]), (15, ["a", "b", "c"])],
)
def test_names_by_bits(bits: int | None, names: list[str]) -> None:
    assert names_of_set_bits(bits, ("a", "b", "c")) == names


def test_a_batch_that_ends_before_all_its_records_says_so(tmp_path: Path) -> None:
    data = rebuild.batch_of(rebuild.record(b"k", b"v"), 0, 3)
    write(tmp_path, data, f"{0:020}.log")
    rows = kfmt("hex", tmp_path / f"{0:020}.log", "--offset", "0", "--json").of("field")
    assert rows[-1]["fault"] == "the batch ends after 1 of 3 records"
