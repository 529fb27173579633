"""The Python functions that write do what the commands do; records are decoded as on the command
line."""

from __future__ import annotations

import json
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


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_salvage_writes_what_the_command_writes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    before = files(FLIPPED)
    answer = kfmt_cli.salvage(FLIPPED, ours, records=True)
    done = kfmt("salvage", FLIPPED, theirs, "--records", "--json")
    assert files(ours) == files(theirs) != {}
    assert (int(answer.exit_code), len(answer)) == (done.code, len(done.rows)) == (1, len(answer))
    assert files(FLIPPED) == before
    renamed = kfmt_cli.salvage(FLIPPED, tmp_path / "as", topic="other")
    assert int(renamed.exit_code) == 1
    assert [path.name for path in (tmp_path / "as").iterdir()] == ["other-0"]


def test_rebuild_index_writes_what_the_command_writes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    answer = kfmt_cli.rebuild_index(BROKER / "txn-0", ours)
    assert kfmt("rebuild-index", BROKER / "txn-0", theirs).code == int(answer.exit_code) == 0
    assert files(ours) == files(theirs) != {}


def test_build_writes_what_the_command_writes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lines = SAMPLES / "hand-made.jsonl"
    answer = kfmt_cli.build(lines, ours, compression="zstd", batch_records=2)
    done = kfmt("build", lines, theirs, "--compression", "zstd", "--batch-records", "2")
    assert int(answer.exit_code) == done.code == 0
    assert files(ours).keys() == files(theirs).keys() != set()
    records = [list(kfmt_cli.read_records(to).objects()) for to in (ours, theirs)]
    assert [len(rows) for rows in records] == [len(records[0])] * 2


def test_export_writes_what_the_command_writes(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    answer = kfmt_cli.export([ORDERS.parent], tmp_path / "lake", tables=("records", "batches"))
    assert int(answer.exit_code) == 0
    rows = dataset.dataset(tmp_path / "lake/records").to_table()
    assert len(rows) == 1500 == answer.of("summary")[0]["records"]
    with pytest.raises(UsageError, match="not empty"):
        kfmt_cli.export(ORDERS.parent, tmp_path / "lake")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda to: kfmt_cli.salvage(FLIPPED, to, topic="a/b"), "a topic name has"),
        (lambda to: kfmt_cli.build(ORDERS, to, compresion="zstd"), "no option named 'compresion'"),
        (lambda to: kfmt_cli.build("-", to), "cannot read standard input"),
        (
            lambda to: kfmt_cli.export(ORDERS, to, tables=("rows",)),
            "no table named 'rows'; choose from records",
        ),
        (
            lambda to: kfmt_cli.export(ORDERS, to, partition="topic"),
            "no option named 'partition'; choose from one_file",
        ),
        (lambda to: kfmt_cli.check(ORDERS, only=["crc-mismach"]), "did you mean crc-mismatch"),
        (lambda to: kfmt_cli.read_records(ORDERS, value_format="jsn"), "no format named 'jsn'"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(
    call: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        call(tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["salvage", "rebuild_index", "export"])
def test_a_path_where_there_is_nothing(name: str, tmp_path: Path) -> None:
    if name == "export":
        pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="No such file"):
        getattr(kfmt_cli, name)(tmp_path / "typo", tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


def test_check_counts_only_the_findings_that_were_asked_for() -> None:
    every = kfmt_cli.check(DAMAGED)
    only = kfmt_cli.check(DAMAGED, only=["CRC-mismatch"])
    rest = kfmt_cli.check(DAMAGED, ignore=["crc-mismatch"])
    codes = [{row["code"] for row in answer.of("finding")} for answer in (every, only, rest)]
    assert codes[1] == {"crc-mismatch"}
    assert codes[2] == codes[0] - {"crc-mismatch"} != set()


def test_values_are_decoded_as_on_the_command_line(tmp_path: Path) -> None:
    lines = [{"value": json.dumps({"n": i})} for i in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    kfmt_cli.build(tmp_path / "in.jsonl", tmp_path / "t-0")
    rows = kfmt_cli.read_records(tmp_path / "t-0", value_format="json")
    shown = kfmt("dump", tmp_path / "t-0", "--records", "--value-format", "json", "--json")
    values = [row["decoded_value"] for row in rows.objects()]
    assert values == [row["decoded_value"] for row in shown.of("record")]
    assert [value["value"] for value in values] == [{"n": i} for i in range(3)]
