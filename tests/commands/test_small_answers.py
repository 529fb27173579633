"""The output of commands for rare options and inputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import with_bytes
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An offset index whose log is missing."""
    (tmp_path / "orders-0").mkdir()
    return Path(shutil.copy(ORDERS.with_suffix(".index"), tmp_path / "orders-0"))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A partition with three damaged batches in each of two logs."""
    for name in (0, 240):
        data = (ORDERS.parent / f"{name:020}.log").read_bytes()
        rows = kfmt("dump", ORDERS.parent / f"{name:020}.log", "--json").of("batch")
        for row in rows[:3]:
            end = row["position"] + 12 + row["batch_length"]
            data = with_bytes(data, end - 2, bytes([data[end - 2] ^ 1]))
        log = tmp_path / f"many/orders-0/{name:020}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(data)
    return tmp_path / "many"


def test_find_in_indexes_alone_is_an_error(index: Path) -> None:
    index_result = kfmt("find", index, "--offset", "5")
    assert (index_result.code, index_result.err) == (
        3,
        f"kfmt: {index}: the log of this index is missing\n",
    )
    for options in (["--offset", "5"], ["--key", "x", "--json"]):
        result = kfmt("find", index.parent, *options)
        assert result.code == 3
        assert "no log segments in or under this directory" in result.err


@pytest.mark.parametrize("name", ["cat", "find"])
def test_omitted_findings_are_counted_up_to_the_limit(name: str, damaged: Path) -> None:
    options = {"cat": ["-f", "%o\n"], "find": ["--value", "~amber"]}[name]
    result = kfmt(name, damaged, *options, "--max-findings", "1", "--limit", "3")
    assert result.code == 1
    assert "and 2 more" in result.out + result.err


def test_replay_counts_omitted_findings(damaged: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="the extra replay is not installed")
    result = kfmt("replay", damaged, "--dry-run", "--max-findings", "2", "--json")
    assert sum(row["count"] for row in result.of("findings_left_out")) == 4


def test_a_fault_in_a_batch_has_one_exit_code_in_every_format() -> None:
    for output_format in ("table", "json", "csv"):
        assert (
            kfmt("hex", ORDERS, "--as-topic", "__consumer_offsets", "--format", output_format).code
            == 1
        )


@pytest.mark.parametrize("options", [[], ["--from-offset", "0"], ["--limit", "5000"]])
def test_csv_of_topics_with_and_without_decoders_has_one_heading(options: list[str]) -> None:
    result = kfmt("dump", BROKER, "--records", "--format", "csv", *options)
    assert sum(line.startswith("file,") for line in result.out.splitlines()) == 1


def test_the_last_records_are_those_of_the_log(tmp_path: Path) -> None:
    metadata = BROKER / "__cluster_metadata-0"
    result = kfmt("export", metadata, "--last", "4", "--to", tmp_path / "lake", "--report", "json")
    assert result.of("summary")[0]["records"] == 4


@pytest.mark.parametrize("name", [f"{0:020}.index", f"{736:020}.snapshot"])
def test_stat_takes_logs_only(name: str) -> None:
    result = kfmt("stat", TXN.parent / name)
    assert result.code == 3
    assert ", not a log segment" in result.err


def test_conditions_on_records_are_refused_for_files_without_records() -> None:
    index = ORDERS.with_suffix(".index")
    for options in (["--key", "x"], ["--to-time", "now"], ["--last", "1"], ["--latest"]):
        result = kfmt("dump", index, *options)
        assert result.code in (2, 3), options
        assert not result.out
    assert kfmt("dump", index, "--from-offset", "200", "--json").of("offset_index_entry")


def test_a_key_stays_in_a_partition_that_the_cleaner_skips() -> None:
    arguments: list[str | Path] = [
        "compaction",
        ORDERS.parent,
        "--cleanup-policy",
        "compact",
        "--key",
        "customer-1",
    ]
    removed = kfmt(*arguments, "--now", "2026-11-21", "--json").of("key")
    assert not all(row["stays"] for row in removed)
    options = ["--min-cleanable-ratio", "1", "--now", "2026-11-21"]
    rows = kfmt(*arguments, *options, "--json").of("key")
    assert {(row["stays"], row["why"]) for row in rows} == {
        (True, "the cleaner skips this partition for now")
    }


def test_an_empty_format_writes_nothing_for_a_record() -> None:
    assert kfmt("cat", ORDERS, "-f", "").out == ""
