"""A log that is cut in pieces is found to have the faults that it has as a whole, without Spark."""

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
from kfmt_cli.spark.jobs.verify import check_for_job
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.split_processing import find_misaligned_files, merge_file_findings

Row = tuple[Any, ...]
WRAPPERS = SAMPLES / "kafka-2.8.2/v1-lz4-0/00000000000000000000.log"


def plain(row: dict[str, Any]) -> Row:
    names = ("position", "code", "message", "offset", "expected", "found")
    return tuple(None if row[name] is None else str(row[name]) for name in names)


def of_verify_crc(log: Path, deep: bool = True) -> list[Row]:
    rows: list[Row] = []
    verifier = LogChecker(deep, DecompressionLimit(), 0)
    found = verifier.iter_findings(classify_file(str(log), str(log)))
    rows += [plain(finding_row(finding)) for finding in found]
    return sorted(rows, key=str)


def of_pieces(log: Path, width: int, deep: bool = True) -> tuple[list[Row], int]:
    """What is found in the pieces together, and how many of them hold batches."""
    request = replace(parse_request({}), paths=(str(log),), deep=deep)
    pieces = list(split_files(list_input_files(request), width))
    found = [(piece, StoredResult(check_for_job(request, [piece], "")[0])) for piece in pieces]
    if find_misaligned_files(found):
        (whole,) = list_input_files(request)
        found = [(whole, StoredResult(check_for_job(request, [whole], "")[0]))]
    found = list(merge_file_findings(found))
    rows = [plain(row) for _, result in found for row in result["findings"]]
    for _, result in found:
        assert sum(result["codes"].values()) == len(result["findings"])
        severities = count_severities(result["codes"]).values()
        assert sum(severity or 0 for severity in severities) == len(result["findings"])
    return sorted(rows, key=str), sum(result["edges"] is not None for _, result in found)


@pytest.mark.parametrize("width", [2000, 5000, 9000])
def test_offsets_that_go_backwards_at_a_cut_are_found(width: int, tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    at = positions(data)
    # The second half once more: at some of the seams offsets go back.
    twice = data[: at[8]] + data[at[4] : at[9]] + data[at[2] :]
    log = with_index(tmp_path, twice, twice)
    expected = of_verify_crc(log)
    assert [row[1] for row in expected].count("offsets-backwards") == 2
    found, n = of_pieces(log, width)
    assert found == expected
    assert n > 3


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("width", [700, 1500, 4000])
def test_wrappers_that_overlap_at_a_cut_are_found(deep: bool, width: int, tmp_path: Path) -> None:
    data = WRAPPERS.read_bytes()
    at = positions(data)
    # Only what is inside the wrappers overlaps: each says the offset of its last message.
    moved = b"".join(
        struct.pack(">q", struct.unpack_from(">q", data, a)[0] - 3 * i) + data[a + 8 : b]
        for i, (a, b) in enumerate(pairwise(at))
    )
    log = with_index(tmp_path, moved, moved)
    expected = of_verify_crc(log, deep)
    assert any(row[1] == "offsets-backwards" for row in expected) == deep
    found, n = of_pieces(log, width, deep)
    assert found == expected
    assert n > 2


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("width", [2576, 3000, 7000])
def test_damage_beside_a_cut_is_judged_as_in_the_whole(
    name: str, width: int, tmp_path: Path
) -> None:
    data = ORDERS.read_bytes()
    damage, _, _ = DAMAGES[name]
    places = positions(data)
    for i in (1, 2, 3, 6):
        harmed = damage(data, places[i], places[i + 1])
        log = with_index(tmp_path / str(i), harmed, data)
        assert of_pieces(log, width)[0] == of_verify_crc(log), i


def mutants() -> Iterator[tuple[bytes, bytes]]:
    """Logs with a few bytes changed, and what they were."""
    chance = random.Random(9)
    for log in (ORDERS, TXN, UPGRADED, WRAPPERS):
        data = log.read_bytes()
        data = data[: positions(data)[min(60, len(positions(data)) - 1)]]
        for _ in range(40):
            harmed = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                batch = chance.choice(positions(data)[:-1])
                harmed[batch + chance.choice([3, 7, 8, 10, 11, 16, 17, 22, 57, 80])] ^= 1 << (
                    chance.randrange(8)
                )
            yield bytes(harmed), data


def settled(rows: list[Row]) -> list[Row]:
    """Without the order of wrappers, which verify-crc does not follow across damage."""
    return [row for row in rows if ": starts at offset" not in row[2]]


def test_mutants_in_pieces_and_in_one(tmp_path: Path) -> None:
    cut_up = 0
    for i, (harmed, data) in enumerate(mutants()):
        log = with_index(tmp_path / str(i), harmed, data)
        for width in (1800, 6000):
            found, n = of_pieces(log, width)
            assert settled(found) == settled(of_verify_crc(log)), f"mutant {i}"
            cut_up += n > 1
        shutil.rmtree(log.parent)
    assert cut_up > 200


def test_findings_beyond_those_that_are_kept_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfmt_cli.arrow.split_checks.MAX_STORED_FINDINGS", 3)
    data = ORDERS.read_bytes()
    log = with_index(tmp_path, data[: positions(data)[1]] * 9, data)
    piece: FileSplit
    (piece,) = list_input_files(replace(parse_request({}), paths=(str(log),)))
    (result,) = check_for_job(replace(parse_request({}), deep=True), [piece], "")
    assert len(result["findings"]) == 3
    assert result["codes"] == {"offsets-backwards": 8}
