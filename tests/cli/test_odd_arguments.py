"""Unusual arguments: the same path twice, a table of other rows, closed streams."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.errors import InputError, UsageError
from tests.rows.test_contract import TYPES, mismatch_reason
from tests.support.samples import ORDERS, environment, kfmt
from tests.support.segments import with_broken_checksums, write
from tools.kafka import ROOT

FLIPPED = "damaged_segments/flipped-bit-0"
PARTITION = ORDERS.parent


def test_a_directory_given_twice_fills_the_disk_once() -> None:
    expected = kfmt("stat", PARTITION, "--json").out
    for same_path in (PARTITION, PARTITION / ".", PARTITION / ".." / PARTITION.name):
        assert kfmt("stat", PARTITION, same_path, "--json").out == expected
    parent_usage = kfmt("stat", PARTITION.parent, "--json").of("disk_usage")
    assert kfmt("stat", PARTITION, PARTITION.parent, "--json").of("disk_usage") == parent_usage


@pytest.mark.parametrize(
    "arguments",
    [("verify-crc",), ("index-check",), ("find", "--offset", "3"), ("dump",), ("check",)],
)
def test_the_same_path_counts_once(arguments: tuple[str, ...], tmp_path: Path) -> None:
    expected = kfmt(*arguments, PARTITION)
    (tmp_path / "link-0").symlink_to(PARTITION)
    for same_path in (PARTITION, PARTITION / ".." / PARTITION.name, tmp_path / "link-0"):
        assert kfmt(*arguments, PARTITION, same_path) == expected


def test_a_log_and_its_directory_are_its_partition() -> None:
    (expected,) = kfmt("stat", PARTITION, "--json").of("stat")
    (row,) = kfmt("stat", ORDERS, PARTITION, "--json").of("stat")
    assert row == expected


def test_retention_of_another_file_is_refused() -> None:
    result = kfmt("retention", "README.md")
    assert (result.code, "not a Kafka log segment" in result.err) == (3, True)
    with pytest.raises(InputError, match="not a Kafka log segment"):
        kfmt_cli.retention("README.md")


def test_tables_of_batches_and_of_findings_next_to_records() -> None:
    arguments = ("dump", FLIPPED, "--format", "csv", "--table")
    batches = kfmt(*arguments, "batch").out
    assert len(batches.splitlines()) == 13
    assert kfmt(*arguments, "batch", "--records").out == batches
    findings = kfmt(*arguments, "finding").out
    assert "crc-mismatch" in findings
    assert kfmt(*arguments, "finding", "--records").out == findings


def test_a_path_that_begins_with_a_dash_in_advice_runs_as_printed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / FLIPPED, tmp_path / "-x-0")
    result = kfmt("check", "--json", "--", "-x-0", cwd=tmp_path)
    (command,) = {row["command"] for row in result.of("next") if "salvage" in row["command"]}
    assert command == "kfmt salvage ./-x-0 DST"
    assert kfmt(*command.split()[1:], cwd=tmp_path).code == 1
    assert (tmp_path / "DST").is_dir()


def test_few_findings_of_a_kind_in_a_table(tmp_path: Path) -> None:
    log = write(tmp_path / "t-0", with_broken_checksums(ORDERS.read_bytes()))
    for arguments in (("dump", log), ("find", log, "--key", "~x")):
        assert kfmt(*arguments).err.count("error    crc-mismatch") == 3
        assert kfmt(*arguments, "--max-findings", "5").err.count("error    crc-mismatch") == 5
        assert len(kfmt(*arguments, "--json").of("finding")) == 12


@pytest.mark.parametrize(
    "arguments",
    [
        ("index-check", "--lookup-offset", "5", FLIPPED),
        ("replicas", "sample_segments/kafka-3.9.1-connect"),
    ],
)
def test_members_that_may_be_null(arguments: tuple[str, ...]) -> None:
    rows = kfmt(*arguments, "--json").rows
    for row in rows:
        reasons = [mismatch_reason(row, type_) for type_ in TYPES if type_.name == row["type"]]
        assert "" in reasons, (row, reasons)


@pytest.mark.parametrize("arguments", [("dump", "nope", str(PARTITION)), ("cat", FLIPPED)])
def test_output_is_whole_without_standard_error(arguments: tuple[str, ...]) -> None:
    expected = kfmt(*arguments)
    command = f'"$0" -m kfmt_cli {" ".join(arguments)} 2>&-'
    process = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, env=environment(), stdout=-1, check=False
    )
    assert (process.stdout.decode(), process.returncode) == (expected.out, expected.code)


@pytest.mark.parametrize(
    "arguments",
    ["--version", "check --help", "format --json-schema", "browse sample_segments", "dump nope"],
)
def test_no_standard_output_is_an_error(arguments: str) -> None:
    command = f'"$0" -m kfmt_cli {arguments} >&-'
    process = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, env=environment(), stderr=-1, check=False
    )
    assert process.stderr.decode() == "kfmt: cannot write output: standard output is closed\n"
    assert process.returncode == 3


def test_a_prompt_without_standard_input_is_an_error() -> None:
    pytest.importorskip("duckdb", reason="the extra sql is not installed")
    command = '"$0" -m kfmt_cli sql sample_segments <&-'
    process = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, env=environment(), stderr=-1, check=False
    )
    assert process.stderr.decode().endswith("kfmt: -: standard input is closed\n")
    assert process.returncode == 3


def test_python_takes_one_text_and_times() -> None:
    findings = kfmt_cli.check(FLIPPED, only="crc-mismatch").of("finding")
    assert {row["code"] for row in findings} == {"crc-mismatch"}
    rows = next(iter(kfmt_cli.read_records(ORDERS, columns="offset")))
    assert len(rows) == 240
    first_record = next(iter(kfmt_cli.read_records(ORDERS).objects()))
    time = datetime.fromtimestamp(first_record["timestamp"] / 1000, timezone.utc)
    for timestamp in (time, first_record["timestamp"]):
        assert json.dumps(kfmt_cli.find(ORDERS, timestamp=timestamp).rows)
    for invalid in ("3", 1.5):
        with pytest.raises(UsageError, match="must be an integer"):
            kfmt_cli.find(ORDERS, offset=invalid)  # type: ignore[arg-type]
    for paths in ([], [ORDERS, ORDERS]):
        with pytest.raises(UsageError, match="read_file reads one file"):
            kfmt_cli.read_file(paths)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a directory"):
        kfmt_cli.read_file(PARTITION)


@pytest.mark.parametrize("command", ["verify-crc", "dump", "stat", "cat"])
def test_an_empty_standard_input_is_no_healthy_log(command: str) -> None:
    done = kfmt(command, "-", stdin=b"")
    assert (done.code, done.err) == (3, "kfmt: -: standard input is empty\n")
