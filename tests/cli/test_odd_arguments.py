"""Arguments that few give: twice the same path, a table of other rows, closed streams."""

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
from tests.rows.test_contract import TYPES, fits
from tests.support.samples import ORDERS, environment, kfmt
from tests.support.segments import with_broken_checksums, write
from tools.kafka import ROOT

FLIPPED = "damaged_segments/flipped-bit-0"
PARTITION = ORDERS.parent


def test_a_directory_given_twice_fills_the_disk_once() -> None:
    once = kfmt("stat", PARTITION, "--json").out
    for more in (PARTITION, PARTITION / ".", PARTITION / ".." / PARTITION.name):
        assert kfmt("stat", PARTITION, more, "--json").out == once
    above = kfmt("stat", PARTITION.parent, "--json").of("disk_usage")
    assert kfmt("stat", PARTITION, PARTITION.parent, "--json").of("disk_usage") == above


@pytest.mark.parametrize(
    "words", [("verify-crc",), ("index-check",), ("find", "--offset", "3"), ("dump",), ("check",)]
)
def test_the_same_path_counts_once(words: tuple[str, ...], tmp_path: Path) -> None:
    once = kfmt(*words, PARTITION)
    (tmp_path / "link-0").symlink_to(PARTITION)
    for more in (PARTITION, PARTITION / ".." / PARTITION.name, tmp_path / "link-0"):
        assert kfmt(*words, PARTITION, more) == once


def test_a_log_and_its_directory_are_its_partition() -> None:
    (alone,) = kfmt("stat", PARTITION, "--json").of("stat")
    (row,) = kfmt("stat", ORDERS, PARTITION, "--json").of("stat")
    assert row == alone


def test_retention_of_another_file_is_refused() -> None:
    done = kfmt("retention", "README.md")
    assert (done.code, "not a Kafka log segment" in done.err) == (3, True)
    with pytest.raises(InputError, match="not a Kafka log segment"):
        kfmt_cli.retention("README.md")


def test_tables_of_batches_and_of_findings_next_to_records() -> None:
    words = ("dump", FLIPPED, "--format", "csv", "--table")
    batches = kfmt(*words, "batch").out
    assert len(batches.splitlines()) == 13
    assert kfmt(*words, "batch", "--records").out == batches
    found = kfmt(*words, "finding").out
    assert "crc-mismatch" in found
    assert kfmt(*words, "finding", "--records").out == found


def test_a_path_that_begins_with_a_dash_in_advice_runs_as_printed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / FLIPPED, tmp_path / "-x-0")
    done = kfmt("check", "--json", "--", "-x-0", cwd=tmp_path)
    (command,) = {row["command"] for row in done.of("next") if "salvage" in row["command"]}
    assert command == "kfmt salvage ./-x-0 DST"
    assert kfmt(*command.split()[1:], cwd=tmp_path).code == 1
    assert (tmp_path / "DST").is_dir()


def test_few_findings_of_a_kind_in_a_table(tmp_path: Path) -> None:
    log = write(tmp_path / "t-0", with_broken_checksums(ORDERS.read_bytes()))
    for words in (("dump", log), ("find", log, "--key", "~x")):
        assert kfmt(*words).err.count("error    crc-mismatch") == 3
        assert kfmt(*words, "--max-findings", "5").err.count("error    crc-mismatch") == 5
        assert len(kfmt(*words, "--json").of("finding")) == 12


@pytest.mark.parametrize(
    "words",
    [
        ("index-check", "--lookup-offset", "5", FLIPPED),
        ("replicas", "sample_segments/kafka-3.9.1-connect"),
    ],
)
def test_members_that_may_be_null(words: tuple[str, ...]) -> None:
    rows = kfmt(*words, "--json").rows
    for row in rows:
        reasons = [fits(row, type_) for type_ in TYPES if type_.name == row["type"]]
        assert "" in reasons, (row, reasons)


@pytest.mark.parametrize("words", [("dump", "nope", str(PARTITION)), ("cat", FLIPPED)])
def test_output_is_whole_without_standard_error(words: tuple[str, ...]) -> None:
    whole = kfmt(*words)
    command = f'"$0" -m kfmt_cli {" ".join(words)} 2>&-'
    run = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, env=environment(), stdout=-1, check=False
    )
    assert (run.stdout.decode(), run.returncode) == (whole.out, whole.code)


@pytest.mark.parametrize(
    "words",
    ["--version", "check --help", "format --json-schema", "browse sample_segments", "dump nope"],
)
def test_no_standard_output_is_an_error(words: str) -> None:
    command = f'"$0" -m kfmt_cli {words} >&-'
    run = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, env=environment(), stderr=-1, check=False
    )
    assert run.stderr.decode() == "kfmt: cannot write output: standard output is closed\n"
    assert run.returncode == 3


def test_a_prompt_without_standard_input_is_an_error() -> None:
    pytest.importorskip("duckdb", reason="the extra sql is not installed")
    command = '"$0" -m kfmt_cli sql sample_segments <&-'
    run = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, env=environment(), stderr=-1, check=False
    )
    assert run.stderr.decode().endswith("kfmt: -: standard input is closed\n")
    assert run.returncode == 3


def test_python_takes_one_text_and_times() -> None:
    found = kfmt_cli.check(FLIPPED, only="crc-mismatch").of("finding")
    assert {row["code"] for row in found} == {"crc-mismatch"}
    rows = next(iter(kfmt_cli.read_records(ORDERS, columns="offset")))
    assert len(rows) == 240
    first = next(iter(kfmt_cli.read_records(ORDERS).objects()))
    time = datetime.fromtimestamp(first["timestamp"] / 1000, timezone.utc)
    for timestamp in (time, first["timestamp"]):
        assert json.dumps(kfmt_cli.find(ORDERS, timestamp=timestamp).rows)
    for wrong in ("3", 1.5):
        with pytest.raises(UsageError, match="must be an integer"):
            kfmt_cli.find(ORDERS, offset=wrong)  # type: ignore[arg-type]
    for paths in ([], [ORDERS, ORDERS]):
        with pytest.raises(UsageError, match="read_file reads one file"):
            kfmt_cli.read_file(paths)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a directory"):
        kfmt_cli.read_file(PARTITION)
