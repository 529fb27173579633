"""Findings of a log do not depend on how it is split; without Spark."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import ORDERS, TXN, UPGRADED
from tests.support.segments import DAMAGES, positions
from tests.support.spark_rows import with_index
from tools.kafka import SAMPLES

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.arrow.split_checks import count_severities
from kfmt_cli.checks.log.checker import LogChecker
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.execution.file_split import FileSplit, split_files
from kfmt_cli.rows.types.finding_row import finding_row
from kfmt_cli.spark.job import StoredResult
from kfmt_cli.spark.jobs.verify import check_splits_for_job
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.split_processing import find_misaligned_files, merge_file_findings

Row = tuple[Any, ...]
WRAPPERS = SAMPLES / "kafka-2.8.2/v1-lz4-0/00000000000000000000.log"


def comparable_row(row: dict[str, Any]) -> Row:
    names = ("position", "code", "message", "offset", "expected", "found")
    return tuple(None if row[name] is None else str(row[name]) for name in names)


def verify_crc_rows(log: Path, deep: bool = True) -> list[Row]:
    rows: list[Row] = []
    verifier = LogChecker(deep, DecompressionLimit(), 0)
    findings = verifier.iter_findings(classify_file(str(log), str(log)))
    rows += [comparable_row(finding_row(finding)) for finding in findings]
    return sorted(rows, key=str)


def split_rows(log: Path, width: int, deep: bool = True) -> tuple[list[Row], int]:
    """The findings of all splits, and the number of splits that contain batches."""
    request = replace(parse_request({}), paths=(str(log),), decodes_records=deep)
    splits = list(split_files(list_input_files(request), width))
    results = [
        (split, StoredResult(check_splits_for_job(request, [split], "")[0])) for split in splits
    ]
    if find_misaligned_files(results):
        (entire_file,) = list_input_files(request)
        results = [(entire_file, StoredResult(check_splits_for_job(request, [entire_file], "")[0]))]
    results = list(merge_file_findings(results))
    rows = [comparable_row(row) for _, result in results for row in result["findings"]]
    for _, result in results:
        assert sum(result["codes"].values()) == len(result["findings"])
        severities = count_severities(result["codes"]).values()
        assert sum(severity or 0 for severity in severities) == len(result["findings"])
    return sorted(rows, key=str), sum(result["edges"] is not None for _, result in results)


@pytest.mark.parametrize("width", [2000, 5000, 9000])
def test_offsets_that_go_backwards_at_a_cut_are_found(width: int, tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    # The second half once more: offsets go back at some of the split points.
    repeated = data[: starts[8]] + data[starts[4] : starts[9]] + data[starts[2] :]
    log = with_index(tmp_path, repeated, repeated)
    expected = verify_crc_rows(log)
    assert [row[1] for row in expected].count("offsets-backwards") == 2
    actual, n = split_rows(log, width)
    assert actual == expected
    assert n > 3


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("width", [700, 1500, 4000])
def test_wrappers_that_overlap_at_a_cut_are_found(deep: bool, width: int, tmp_path: Path) -> None:
    data = WRAPPERS.read_bytes()
    starts = positions(data)
    # Only the contents of the wrappers overlap: each has the offset of its last message.
    moved = b"".join(
        struct.pack(">q", struct.unpack_from(">q", data, start)[0] - 3 * i) + data[start + 8 : end]
        for i, (start, end) in enumerate(pairwise(starts))
    )
    log = with_index(tmp_path, moved, moved)
    expected = verify_crc_rows(log, deep)
    assert any(row[1] == "offsets-backwards" for row in expected) == deep
    actual, n = split_rows(log, width, deep)
    assert actual == expected
    assert n > 2


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("width", [2576, 3000, 7000])
def test_damage_next_to_a_cut_is_found_as_in_the_entire_file(
    name: str, width: int, tmp_path: Path
) -> None:
    data = ORDERS.read_bytes()
    damage, _, _ = DAMAGES[name]
    starts = positions(data)
    for i in (1, 2, 3, 6):
        damaged = damage(data, starts[i], starts[i + 1])
        log = with_index(tmp_path / str(i), damaged, data)
        assert split_rows(log, width)[0] == verify_crc_rows(log), i


def mutants() -> Iterator[tuple[bytes, bytes]]:
    """Logs with a few changed bytes, and the originals."""
    rng = random.Random(9)
    for log in (ORDERS, TXN, UPGRADED, WRAPPERS):
        data = log.read_bytes()
        data = data[: positions(data)[min(60, len(positions(data)) - 1)]]
        for _ in range(40):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                batch = rng.choice(positions(data)[:-1])
                damaged[batch + rng.choice([3, 7, 8, 10, 11, 16, 17, 22, 57, 80])] ^= 1 << (
                    rng.randrange(8)
                )
            yield bytes(damaged), data


def without_wrapper_order(rows: list[Row]) -> list[Row]:
    """Without the order of wrappers, which verify-crc does not follow across damage."""
    return [row for row in rows if ": starts at offset" not in row[2]]


def test_mutants_in_splits_and_in_one_file(tmp_path: Path) -> None:
    n_split = 0
    for i, (damaged, data) in enumerate(mutants()):
        log = with_index(tmp_path / str(i), damaged, data)
        for width in (1800, 6000):
            actual, n = split_rows(log, width)
            assert without_wrapper_order(actual) == without_wrapper_order(verify_crc_rows(log)), (
                f"mutant {i}"
            )
            n_split += n > 1
        shutil.rmtree(log.parent)
    assert n_split > 200


def test_findings_beyond_those_that_are_kept_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfmt_cli.arrow.split_checks.MAX_STORED_FINDINGS", 3)
    data = ORDERS.read_bytes()
    log = with_index(tmp_path, data[: positions(data)[1]] * 9, data)
    split: FileSplit
    (split,) = list_input_files(replace(parse_request({}), paths=(str(log),)))
    (result,) = check_splits_for_job(replace(parse_request({}), decodes_records=True), [split], "")
    assert len(result["findings"]) == 3
    assert result["codes"] == {"offsets-backwards": 8}
