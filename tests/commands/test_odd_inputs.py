"""Output for rare inputs: old formats, duplicate names, missing files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kfmt_cli.commands.replay.lines import format_group_line
from kfmt_cli.commands.report.page.figures import PageFigures, add_freed_bytes
from kfmt_cli.commands.report.page.page_data import PageData, PageRow
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.render.style import Theme
from kfmt_cli.writers.salvage.batch_arrangement import arrange_batches
from kfmt_cli.writers.salvage.undamaged_batches import UndamagedBatches
from tests.support.samples import ORDERS, kfmt
from tests.support.terminal import run_on_terminal
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
REQUEST = "0000001b00120003000000070006636c69656e7400056b666d7404302e3100"


def copy_partition(source: Path, target: Path, *suffixes: str) -> Path:
    """A copy of the files of a partition with some suffixes."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix in suffixes:
            shutil.copy(file, target)
    return target


def unwrapped(output: str) -> str:
    """Output without its line breaks, which depend on the length of paths."""
    return " ".join(output.split())


def test_headers_hidden_on_a_narrow_terminal_are_named() -> None:
    output = run_on_terminal("request-header", REQUEST + REQUEST, columns=60)
    assert "columns hidden" in output


@pytest.mark.parametrize("page", ["record-batch", "attributes", "lz4"])
def test_pages_about_batches_do_not_read_old_messages_as_batches(page: str) -> None:
    old_result = kfmt("explain", page, SAMPLES / "kafka-0.8.2.2/real08-gzip-0")
    assert old_result.code == 0
    assert "records_count            0" not in old_result.out
    refusal = "has no batch of magic 2"
    if page != "lz4":
        assert refusal in unwrapped(old_result.out)
    mixed_result = kfmt("explain", page, SAMPLES / "kafka-2.8.2/upgraded-0")
    assert refusal not in unwrapped(mixed_result.out)


def test_a_lookup_is_explained_within_a_log_that_begins_later(tmp_path: Path) -> None:
    partition = copy_partition(ORDERS.parent, tmp_path / "orders-0", ".log")
    (partition / ORDERS.name).unlink()
    output = kfmt("explain", "look-up", partition).out
    assert "Offset 240 in" in output
    assert "offsets 240–" in output


def test_lookups_continue_after_a_path_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = kfmt(
        "index-check", tmp_path / "empty", ORDERS.parent, "--lookup-offset", "5", "--json"
    )
    assert result.code == 3
    assert [row["target"] for row in result.of("lookup")] == [5]
    assert "empty" in result.err


@pytest.mark.parametrize("is_reversed", [False, True])
def test_ambiguous_pairs_are_refused_on_either_side(is_reversed: bool, tmp_path: Path) -> None:
    left, right = tmp_path / "one", tmp_path / "two"
    copy_partition(ORDERS.parent, left / "orders-0", ".log")
    for directory in ("a", "b"):
        copy_partition(ORDERS.parent, right / directory / "orders-0", ".log")
    result = kfmt("diff", *((right, left) if is_reversed else (left, right)))
    assert result.code == 2
    assert "have the same name" in result.err


def test_a_topic_may_be_called_none(tmp_path: Path) -> None:
    source = copy_partition(ORDERS.parent, tmp_path / "None-0", ".log")
    result = kfmt("salvage", source, tmp_path / "out", "--as", "restored")
    assert result.code == 0, result.err
    assert (tmp_path / "out/restored-0" / ORDERS.name).exists()


def test_an_index_that_is_a_directory_is_named(tmp_path: Path) -> None:
    partition = copy_partition(ORDERS.parent, tmp_path / "orders-0", ".log", ".timeindex")
    index = (partition / ORDERS.name).with_suffix(".index")
    index.mkdir()
    result = kfmt("rebuild-index", partition, "--in-place")
    assert result.code == 3
    assert f"{index}: is a directory" in result.err
    assert (partition / "00000000000000000240.index").is_file()


@pytest.mark.parametrize(
    ("digits", "reason"), [("hex:zz", "has the digits"), ("hex:abc", "two digits per byte")]
)
def test_text_that_is_not_hexadecimal_is_refused_for_its_reason(digits: str, reason: str) -> None:
    result = kfmt("hex", digits)
    assert result.code == 3
    assert reason in result.err


def test_lines_of_a_text_file_are_called_lines() -> None:
    result = kfmt("hex", BROKER / "meta.properties", "--entry", "9")
    assert "no line 9" in result.err
    assert "lines" in result.err.rpartition("has ")[2]


def test_topic_names_are_escaped_with_a_reason() -> None:
    row = FieldDict(
        group="g",
        topic="a\x1b[31mb",
        partition=0,
        offset=1,
        target_offset=None,
        reason="\x1b[0m",
    )
    assert "\x1b" not in format_group_line(row, Theme("never"))


def test_the_state_since_the_end_of_a_snapshot_is_not_after_the_last_record(
    tmp_path: Path,
) -> None:
    metadata = BROKER / "__cluster_metadata-0"
    snapshot = max(metadata.glob("*.checkpoint"))
    end = int(snapshot.name[:20])
    partition = tmp_path / metadata.name
    partition.mkdir()
    shutil.copy(snapshot, partition)
    result = kfmt("state", partition, "--since-offset", str(end - 1))
    assert "is after the last record" not in result.err
    assert f"at {end - 1}" in kfmt("state", partition, "--since-offset", str(end)).err


def test_the_last_deletion_is_drawn() -> None:
    data, figures = PageData(), PageFigures()
    data.rows_by_type["report"] = [PageRow(type="report", now=0)]
    data.rows_by_type["retention"] = [
        PageRow(type="retention", bytes=10, deletable=False, deletable_at=i * 1000 + 1, odd=None)
        for i in range(402)
    ]
    add_freed_bytes(figures, data)
    assert figures.rows_by_table["freed"][-1]["bytes"] == 4020


def test_a_refused_remain_hides_no_later_one() -> None:
    def batches(*ranges: tuple[int, int]) -> UndamagedBatches:
        n = len(ranges)
        first_offsets, last_offsets = (
            np.array(column, np.int64) for column in zip(*ranges, strict=True)
        )
        indexes = np.arange(n, dtype=np.int64)
        sizes, epochs = np.full(n, 10), np.zeros(n, np.int64)
        return UndamagedBatches(
            0, indexes * 10, sizes, first_offsets, last_offsets, indexes, epochs
        )

    remains = batches((5, 9), (8, 1000), (20, 29), (30, 39))
    segments = arrange_batches([batches((0, 4))], remains).segments
    ranges = [(run.first_offset, run.last_offset) for _, runs in segments for run in runs]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 39
    assert all(last < 1000 for _, last in ranges)


def test_control_records_of_kraft_are_not_transactional(tmp_path: Path) -> None:
    metadata = BROKER / "__cluster_metadata-0"
    rows = kfmt("dump", metadata, "--records", "--json").rows
    [batch, record] = [row for row in rows if row["type"] in ("batch", "record")][:2]
    assert record["control"]["type"] == "LEADER_CHANGE"
    lines = tmp_path / "lines.jsonl"
    marker = {"control": {"type": "COMMIT", "coordinator_epoch": 0}, "producer_id": 1}
    leader_change = {name: record[name] for name in ("offset", "timestamp", "control")}
    lines.write_text(
        "".join(f"{json.dumps(line)}\n" for line in (leader_change, {**marker, "offset": 9}))
    )
    assert kfmt("build", lines, tmp_path / "out").code == 0
    built_batches = kfmt("dump", tmp_path / "out", "--json").of("batch")
    assert [row["attributes"]["transactional"] for row in built_batches] == [False, True]
    assert built_batches[0]["attributes"]["raw"] == batch["attributes"]["raw"]


def test_a_line_of_notes_with_a_repeated_key_is_refused(tmp_path: Path) -> None:
    lines = tmp_path / "notes.jsonl"
    lines.write_text('{"value":"a","value":"b"}\n')
    result = kfmt("build", lines, tmp_path / "out", "--layout", "notes-v0")
    assert result.code == 2
    assert "line 1: duplicate key 'value'" in result.err


def test_findings_in_a_store_have_its_url() -> None:
    from kfmt_cli.render.sinks.repository import path_in_repository

    url = "s3://bucket/orders-0/00000000000000000000.index"
    assert path_in_repository(url) == (url, False)
