"""The Python API returns the same rows as the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kfmt_cli
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.rows.column import LOCATION_COLUMNS
from kfmt_cli.rows.types.finding_row import finding_row
from tests.support.samples import ORDERS, TXN, UPGRADED, every_log, kfmt, sample_name
from tools.kafka import ROOT, SAMPLES

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
SMALL = [log for log in every_log() if 0 < log.stat().st_size < 100_000]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda item: item.split("\n")[-2][:30])
def test_the_examples_of_the_docs_run(example: str) -> None:
    for name, module in (("arrow", "pyarrow"), ("polars", "polars"), ("duckdb", "duckdb")):
        if name in example:
            pytest.importorskip(module)
            pytest.importorskip("pyarrow")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=ROOT, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout
    assert not result.stderr


@pytest.mark.parametrize("log", SMALL, ids=sample_name)
def test_objects_are_the_rows_of_the_commands(log: Path) -> None:
    dumped = kfmt("dump", log, "--records", "--json", "--bytes", "hex")
    for type_, read in (("batch", kfmt_cli.read_batches), ("record", kfmt_cli.read_records)):
        expected = dumped.of(type_)
        rows = list(read(str(log)).objects())
        if type_ == "batch":
            for row, expected_row in zip(rows, expected, strict=True):
                # Only decompression shows where a wrapper begins.
                row["base_offset"] = expected_row["base_offset"]
        else:
            for row in rows:
                _as_hex(row)
        assert rows == expected


def _as_hex(row: dict[str, object]) -> None:
    for item in (row, *(row["headers"] or ())):  # type: ignore[misc]
        for name in ("key", "value"):
            if item[name] is not None:
                item[name] = item[name].hex()
                item[f"{name}_encoding"] = "hex"


@pytest.mark.parametrize("log", [ORDERS, TXN, UPGRADED], ids=sample_name)
def test_columns_and_arrow_hold_the_same(log: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    rows = kfmt_cli.read_records(log)
    table = pyarrow.table(rows)
    columns = list(rows.columns())
    for name in ("offset", "key", "value", "sequence"):
        values = [item for chunk in columns for item in np.ma.getdata(chunk[name]).tolist()]
        arrow = table.column(name).to_pylist()
        assert [
            None if item == -1 and name == "sequence" else item for item in values
        ] == arrow or (log is UPGRADED and name == "sequence")
    objects = list(rows.objects())
    assert [row["offset"] for row in objects] == table.column("offset").to_pylist()
    assert [row["key"] for row in objects] == table.column("key").to_pylist()


def test_findings_are_those_of_verify_crc() -> None:
    directory = ROOT / "damaged_segments"
    for deep in (False, True):
        finding_rows = [finding_row(finding) for finding in kfmt_cli.verify(directory, deep=deep)]
        result = kfmt("verify-crc", directory, "--json", *(["--deep"] if deep else []))
        assert finding_rows == [
            {k: v for k, v in finding.items() if k not in {"type", *LOCATION_COLUMNS}}
            for finding in result.of("finding")
        ]
    rows = kfmt_cli.read_records(directory)
    assert sum(1 for _ in rows.objects()) == 1720
    assert {finding.code.name for finding in rows.findings} >= {"crc-mismatch", "zero-tail"}


def test_bounds_and_columns() -> None:
    pytest.importorskip("pyarrow")
    rows = kfmt_cli.read_records(ORDERS, columns=["offset"], from_offset=7, to_offset=9)
    (batch,) = rows.arrow()
    assert batch.to_pydict() == {"offset": [7, 8, 9]}
    assert [row["offset"] for row in rows.objects()] == [7, 8, 9]
    batches = kfmt_cli.read_batches([ORDERS, TXN], columns=["file"])
    assert {name for batch in batches for name in batch["file"].to_pylist()} == {
        str(ORDERS),
        str(TXN),
    }


def test_what_cannot_be_read_or_asked_for() -> None:
    with pytest.raises(UsageError, match="no column named 'x'"):
        kfmt_cli.read_records(ORDERS, columns=["x"])
    with pytest.raises(InputError, match="No such file"):
        list(kfmt_cli.read_records("/no/such/file"))
    with pytest.raises(InputError, match="No such file"):
        kfmt_cli.verify("/no/such/file")
    with pytest.raises(InputError, match="not a Kafka log"):
        kfmt_cli.read_file(ROOT / "README.md").objects().__next__()


def test_a_file_of_any_kind() -> None:
    for file in sorted(SAMPLES.glob("kafka-3.9.1-broker1/txn-0/*.*")):
        if file.suffix != ".metadata":
            result = kfmt("dump", file, "--json")
            contents = kfmt_cli.read_file(file)
            assert [row["type"] for row in contents.objects()] == [
                row["type"] for row in result.rows
            ]
    control = [row for row in kfmt_cli.read_records(TXN).objects() if "control" in row]
    assert {row["control"]["type"] for row in control} == {"ABORT", "COMMIT"}


def test_without_arrow_rows_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    first = next(iter(kfmt_cli.read_records(ORDERS)))
    assert first["offset"].tolist()[:3] == [0, 1, 2]
    assert list(np.ma.getmaskarray(first["position"])[:3]) == [False] * 3


def test_integers_of_numpy_are_integers() -> None:
    five: Any = np.int64(5)
    assert len(list(kfmt_cli.find(ORDERS, offset=five))) == 1
    rows = kfmt_cli.read_records(ORDERS, from_offset=five, to_offset=five)
    assert sum(len(batch) for batch in rows) == 1
    with pytest.raises(UsageError, match="it must be an integer"):
        kfmt_cli.find(ORDERS, offset=five / 1)


def test_a_second_call_sees_what_has_changed_on_the_disk(tmp_path: Path) -> None:
    broker = SAMPLES / "kafka-3.9.1-broker1"

    def policy_source() -> object:
        (row, *_) = kfmt_cli.retention(tmp_path / "compacted-0").rows
        return row["settings"]["cleanup.policy"]["source"]

    shutil.copytree(broker / "compacted-0", tmp_path / "compacted-0")
    assert policy_source() == "Kafka's default"
    shutil.copytree(broker / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    assert policy_source() == "metadata log"


def test_the_errors_are_there_before_the_first_call() -> None:
    code = "import kfmt_cli; kfmt_cli.errors.InputError; kfmt_cli.errors.UsageError"
    subprocess.run([sys.executable, "-c", code], check=True)
