"""The Python functions that write do the same as the commands; records are decoded as on the
command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.errors import InputError, UsageError
from tests.support.samples import ORDERS, kfmt
from tools.kafka import ROOT, SAMPLES

DAMAGED = ROOT / "damaged_segments"
FLIPPED = DAMAGED / "flipped-bit-0"
BROKER = SAMPLES / "kafka-3.9.1-broker1"
LINES = SAMPLES / "hand-made.jsonl"


def files(directory: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def test_salvage_writes_what_the_command_writes(tmp_path: Path) -> None:
    from_function, from_command = tmp_path / "ours", tmp_path / "theirs"
    original_files = files(FLIPPED)
    answer = kfmt_cli.salvage(FLIPPED, from_function, records=True)
    result = kfmt("salvage", FLIPPED, from_command, "--records", "--json")
    assert files(from_function) == files(from_command) != {}
    assert (
        (int(answer.exit_code), len(answer)) == (result.code, len(result.rows)) == (1, len(answer))
    )
    assert files(FLIPPED) == original_files
    renamed = kfmt_cli.salvage(FLIPPED, tmp_path / "as", topic="other")
    assert int(renamed.exit_code) == 1
    assert [path.name for path in (tmp_path / "as").iterdir()] == ["other-0"]


def test_rebuild_index_writes_what_the_command_writes(tmp_path: Path) -> None:
    from_function, from_command = tmp_path / "ours", tmp_path / "theirs"
    answer = kfmt_cli.rebuild_index(BROKER / "txn-0", from_function)
    assert kfmt("rebuild-index", BROKER / "txn-0", from_command).code == int(answer.exit_code) == 0
    assert files(from_function) == files(from_command) != {}


def test_build_writes_what_the_command_writes(tmp_path: Path) -> None:
    from_function, from_command = tmp_path / "ours", tmp_path / "theirs"
    lines = LINES
    answer = kfmt_cli.build(lines, from_function, compression="zstd", batch_records=2)
    result = kfmt("build", lines, from_command, "--compression", "zstd", "--batch-records", "2")
    assert int(answer.exit_code) == result.code == 0
    assert files(from_function).keys() == files(from_command).keys() != set()
    records = [
        list(kfmt_cli.read_records(output).objects()) for output in (from_function, from_command)
    ]
    assert [len(rows) for rows in records] == [len(records[0])] * 2


def test_export_writes_what_the_command_writes(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    answer = kfmt_cli.export([ORDERS.parent], tmp_path / "lake", tables=("records", "batches"))
    assert int(answer.exit_code) == 0
    rows = dataset.dataset(tmp_path / "lake/records").to_table()
    assert len(rows) == 1500 == answer.of("summary")[0]["records"]
    with pytest.raises(UsageError, match="not empty"):
        kfmt_cli.export(ORDERS.parent, tmp_path / "lake")


def test_export_notes_the_offsets_that_consumers_cannot_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    answer = kfmt_cli.export(tmp_path / "orders-0", tmp_path / "ours")
    result = kfmt("export", tmp_path / "orders-0", "--to", tmp_path / "theirs", "--report", "json")
    assert "300" in answer.notes[0]
    notes = [f"{note}\n".replace("/ours", "/theirs") for note in answer.notes]
    assert notes == [*result.err.splitlines(keepends=True)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda output: kfmt_cli.salvage(FLIPPED, output, topic="a/b"), "a topic name has"),
        (lambda output: kfmt_cli.build(LINES, output, topic="a/b"), "a topic name has"),
        (
            lambda output: kfmt_cli.build(ORDERS, output, compresion="zstd"),
            "no option named 'compresion'",
        ),
        (lambda output: kfmt_cli.build("-", output), "cannot read standard input"),
        (
            lambda output: kfmt_cli.export(ORDERS, output, tables=("rows",)),
            "no table named 'rows'; choose from records",
        ),
        (
            lambda output: kfmt_cli.export(ORDERS, output, partition="topic"),
            "no option named 'partition'; choose from one_file",
        ),
        (lambda output: kfmt_cli.check(ORDERS, only=["crc-mismach"]), "did you mean crc-mismatch"),
        (lambda output: kfmt_cli.read_records(ORDERS, value_format="jsn"), "no format named 'jsn'"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(
    function: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        function(tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["salvage", "rebuild_index", "export"])
def test_a_path_where_there_is_nothing(name: str, tmp_path: Path) -> None:
    if name == "export":
        pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="No such file"):
        getattr(kfmt_cli, name)(tmp_path / "typo", tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


def test_check_counts_only_the_findings_that_were_asked_for() -> None:
    all_findings = kfmt_cli.check(DAMAGED)
    selected = kfmt_cli.check(DAMAGED, only=["CRC-mismatch"])
    remaining = kfmt_cli.check(DAMAGED, ignore=["crc-mismatch"])
    codes = [
        {row["code"] for row in answer.of("finding")}
        for answer in (all_findings, selected, remaining)
    ]
    assert codes[1] == {"crc-mismatch"}
    assert codes[2] == codes[0] - {"crc-mismatch"} != set()


def test_values_are_decoded_as_on_the_command_line(tmp_path: Path) -> None:
    lines = [{"value": json.dumps({"n": i})} for i in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    kfmt_cli.build(tmp_path / "in.jsonl", tmp_path / "t-0")
    rows = kfmt_cli.read_records(tmp_path / "t-0", value_format="json")
    result = kfmt("dump", tmp_path / "t-0", "--records", "--value-format", "json", "--json")
    values = [row["decoded_value"] for row in rows.objects()]
    assert values == [row["decoded_value"] for row in result.of("record")]
    assert [value["value"] for value in values] == [{"n": i} for i in range(3)]
