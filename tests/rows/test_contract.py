"""The JSON contract: every object that a command prints is of a type that is declared."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.commands.contract import (
    iter_contract_sections,
    result_row_type_by_command,
    variants_by_type_name,
)
from kfmt_cli.errors import UsageError
from kfmt_cli.rows.column import LOCATION_COLUMNS, ColumnKind, LocationSource, RowType
from kfmt_cli.rows.documents import STATISTICS_ROW, build_members
from tests.formats.test_formats_reference import NOTE
from tests.support.samples import Row, kfmt
from tools.kafka import ROOT

BROKER = "sample_segments/kafka-3.9.1-broker1"
CONNECT = "sample_segments/kafka-3.9.1-connect"
DAMAGED = "damaged_segments"
COMMANDS = [
    f"dump {BROKER}",
    f"dump --records {BROKER}/txn-0 {DAMAGED}",
    f"dump --records --max-findings 1 {DAMAGED}",
    f"verify-crc --deep {BROKER} {DAMAGED}",
    f"check {BROKER}",
    f"check {DAMAGED}",
    f"index-check {BROKER} {DAMAGED}",
    f"index-check {BROKER}/orders-0 --lookup-offset 700",
    f"stat {BROKER} --deep --what-if zstd",
    f"stat {BROKER} --plot",
    f"retention {BROKER}/orders-0",
    f"compaction {BROKER}/compacted-0 --offsets",
    f"compaction {BROKER}/compacted-0 --key user-60",
    f"find {BROKER}/orders-0 --key customer-7",
    f"find {BROKER}/orders-0 --offset 700",
    f"txn {BROKER}",
    f"diff {BROKER}/orders-0 {BROKER}/txn-0",
    f"diff {BROKER}/replicated-0 sample_segments/kafka-3.9.1-broker2/replicated-0",
    f"salvage {DAMAGED} DST --records",
    f"rebuild-index {BROKER}/txn-0 DST",
    "build sample_segments/hand-made.jsonl DST",
    "convert-v0-to-v2 sample_segments/kafka-2.8.2/v0-gzip-0 DST",
    f"sql 'select * from records limit 500' {BROKER}",
    f"sql 'from batches' {BROKER}",
    f"sql \"select 1 as file, 'x' as before, [1] as found, null as type\" {BROKER}",
    f"hex {BROKER}/orders-0/00000000000000000000.log --offset 3",
    f"state {BROKER}",
    f"state {CONNECT}",
    f"state {BROKER}/__cluster_metadata-0 --since-offset 500",
    "state sample_segments/kafka-3.9.1-tiered",
    "explain",
    "explain compaction",
    "explain timing-wheel",
    "explain crc-mismatch",
    "format",
    "format RecordBatch",
    "partition-of --group billing",
    "partition-of --key customer-1 --partitions 4",
    "encode-varint 300",
    "decode-varint ac02",
]
DECLARED_TYPES = [type_ for section in iter_contract_sections() for type_ in section.row_types]
# A result of a file has the members of its command, in this command's order.
TYPES = [type_ for type_ in DECLARED_TYPES if type_.name != "file"] + list(
    result_row_type_by_command().values()
)
KINDS: dict[ColumnKind, type | tuple[type, ...]] = {
    ColumnKind.NUMBER: int,
    ColumnKind.REAL: (int, float),
    ColumnKind.FLAG: bool,
    ColumnKind.CHOICE: str,
    ColumnKind.TEXT: str,
}
# The rows of `state --since-offset` have two more members.
CHANGE_MEMBERS = {"change", "before"}


def mismatch_reason(row: Row, type_: RowType) -> str:
    """The reason why an object is not of a type; empty if it is."""
    columns = {column.name: column for column in type_.columns}
    names = [text for text in row if text != "type" and text not in CHANGE_MEMBERS]
    if type_.location_source is not LocationSource.NO_LOCATION:
        if names[: len(type_.leading_members)] != list(type_.leading_members):
            return f"it begins with {names[: len(type_.leading_members)]}"
        names = [text for text in names if text not in LOCATION_COLUMNS]
    ordered = [column for column in columns if column in names]
    extra = [name for name in names if name not in columns and name != "file"]
    extra = [text for text in extra if not text.endswith("_encoding")]
    if type_.name in ("summary", "row"):  # the totals of all files; a query's columns
        extra = []
    if extra:
        return f"has {extra}"
    if [name for name in names if name in columns] != ordered:
        return f"its members come in the order {names}"
    for name in ordered:
        column, value = columns[name], row[name]
        if value is None:
            if not (
                column.presence_column or column.kind.is_byte_range or column.null_value is not None
            ):
                return f"{name} is null"
        elif column.kind in KINDS and not isinstance(value, KINDS[column.kind]):
            return f"{name} is {value!r}"
    absent = [
        column.name for column in type_.columns if column.name not in row and not column.present_if
    ]
    return f"{absent} are absent" if absent and type_.name not in TYPES_OF_SEVERAL_SHAPES else ""


# Rows whose members depend on the file: on its magic, on its kind of records.
TYPES_OF_SEVERAL_SHAPES = {"batch", "record", "field", "found"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_object_is_of_a_type_that_is_declared(command: str, tmp_path: Path) -> None:
    arguments = [text.replace("DST", str(tmp_path / "new")) for text in shlex.split(command)]
    rows = kfmt(*arguments, "--json").rows
    assert rows
    for row in rows:
        reasons = [mismatch_reason(row, type_) for type_ in TYPES if type_.name == row["type"]]
        assert reasons, f"no type {row['type']} is declared"
        assert "" in reasons, (row, reasons)


def are_declared(rows: list[Row]) -> bool:
    """Whether each object is of a type that is declared."""
    return all(
        "" in [mismatch_reason(row, type_) for type_ in TYPES if type_.name == row["type"]]
        for row in rows
    )


def test_decoded_records_are_declared() -> None:
    rows = kfmt("dump", f"{BROKER}/__consumer_offsets-1", "--records", "--json").of("record")
    assert any("decoded_value" in row for row in rows)
    assert are_declared(rows)


def test_messages_of_the_notes_are_declared(tmp_path: Path) -> None:
    (tmp_path / "notes.bin").write_bytes(NOTE)
    rows = kfmt("dump", tmp_path / "notes.bin", "--layout", "notes-v0", "--json").rows
    assert [row["type"] for row in rows] == ["notes_message"]
    assert are_declared(rows)


@pytest.mark.parametrize("tables", ["records", "records,batches"])
def test_results_of_an_export_are_declared(tables: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    to_path = tmp_path / "new"
    arguments = ("--to", to_path, "--tables", tables, "--report", "json")
    rows = kfmt("export", f"{BROKER}/orders-0", *arguments).rows
    assert [row["type"] for row in rows] == ["file"] * 7 + ["summary"]
    assert are_declared(rows)


def test_a_member_that_is_not_declared_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="stat has no colour"):
        build_members(STATISTICS_ROW, {"colour": 1})


def test_types_are_documented() -> None:
    text = (ROOT / "docs" / "json.md").read_text()
    for type_ in DECLARED_TYPES:
        assert type_.doc, type_.name
        assert f"### `{type_.name}`" in text
        undocumented = [
            column.name
            for column in type_.columns
            if not column.doc and column.kind is not ColumnKind.GROUP
        ]
        assert not undocumented, (type_.name, undocumented)


# CSV is one table.


def test_csv_is_one_table_and_says_what_it_leaves_out() -> None:
    result = kfmt("retention", f"{BROKER}/orders-0", "--format", "csv")
    assert result.out.splitlines()[0].startswith("file,topic,partition,log_dir,base_offset,")
    assert len({line.count(",") for line in result.out.splitlines() if '"' not in line}) == 1
    assert "use --table roll to write it" in result.err
    roll_result = kfmt("retention", f"{BROKER}/orders-0", "--format", "csv", "--table", "roll")
    assert roll_result.out.splitlines()[0] == "file,topic,partition,log_dir,reason,at_bytes,at_time"
    assert len(roll_result.out.splitlines()) == 2
    assert not roll_result.err


def test_the_table_of_results_is_that_of_files(tmp_path: Path) -> None:
    result = kfmt("salvage", DAMAGED, tmp_path / "new", "--format", "csv")
    assert result.out.startswith("file,topic,partition,log_dir,kind,")
    assert "use --table hole to write it" in result.err


def test_a_table_that_is_none_is_refused() -> None:
    result = kfmt("stat", f"{BROKER}/orders-0", "--format", "csv", "--table", "nothing")
    assert result.code == 2
    assert "docs/json.md" in result.err


# The Python API returns what the commands print.

API_CALLS = {
    f"check {DAMAGED}": lambda: kfmt_cli.check(DAMAGED),
    f"stat {BROKER}": lambda: kfmt_cli.stat(BROKER),
    f"find {BROKER}/orders-0 --offset 700": lambda: kfmt_cli.find(f"{BROKER}/orders-0", offset=700),
    f"find {BROKER}/orders-0 --key customer-7": lambda: kfmt_cli.find(
        f"{BROKER}/orders-0", key=b"customer-7"
    ),
    f"txn {BROKER}/txn-0": lambda: kfmt_cli.txn(f"{BROKER}/txn-0"),
    f"diff {BROKER}/orders-0 {BROKER}/txn-0": lambda: kfmt_cli.diff(
        f"{BROKER}/orders-0", f"{BROKER}/txn-0"
    ),
    f"retention {BROKER}/orders-0 --retention-ms 1 --now 1800000000000": lambda: kfmt_cli.retention(
        f"{BROKER}/orders-0", retention_ms=1, now=1_800_000_000_000
    ),
    f"compaction {BROKER}/compacted-0 --now 1800000000000": lambda: kfmt_cli.compaction(
        f"{BROKER}/compacted-0", now=1_800_000_000_000
    ),
    f"state {BROKER}/__consumer_offsets-1": lambda: kfmt_cli.state(
        f"{BROKER}/__consumer_offsets-1"
    ),
}


@pytest.mark.parametrize("command", API_CALLS)
def test_python_answers_as_the_command_does(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = kfmt(*command.split(), "--json")
    answer = API_CALLS[command]()
    assert list(answer) == result.rows
    assert answer.exit_code == result.code
    assert list(answer.objects()) == answer.rows
    pytest.importorskip("pyarrow")
    for name in {str(row["type"]) for row in answer}:
        table = answer.arrow(name)
        assert table.num_rows == len(answer.of(name))
        assert set(table.schema.names) >= {text for row in answer.of(name) for text in row} - {
            "type"
        }
    import pyarrow as pa

    tables = answer.tables
    assert sum(table.num_rows for table in tables.values()) == len(answer)
    if len(tables) == 1:
        assert pa.table(answer) == answer.arrow() == next(iter(tables.values()))
    else:
        with pytest.raises(UsageError, match="rows of several types"):
            pa.table(answer)


def test_no_type_is_declared_twice_in_a_part() -> None:
    for section in iter_contract_sections():
        names = [type_.name for type_ in section.row_types if type_.name != "file"]
        assert len(names) == len(set(names)) or section.title == "Entries of files"
    assert "partition" in variants_by_type_name()
