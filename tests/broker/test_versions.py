"""What the versions of Kafka make differently of the same files.

Expected is what UnifiedLog of each version does: tests/interop/test_versions.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.broker.version import MOST_LEVEL, NEWEST, OLDEST, VERSIONS, by_level
from tests.support.broken_partitions import ORDERS, V1_GZIP, name, sample
from tests.support.samples import Row, kfmt
from tests.support.segments import positions, with_bytes
from tests.support.version_cases import LAST_WRAPPERS, undecodable
from tools.observe import Files

NAMES = [version.name for version in VERSIONS]
# Whose wrapper is the first batch from the last entry of the index that recovery rebuilds.
AT_LAST_ENTRY = ("v0-lz4-0", "v0-snappy-0", "v1-snappy-0", "real08-snappy-0")


def starts(files: Files, folder: Path, *options: str) -> list[Row]:
    """The predicted starts of a partition."""
    partition = folder / "given-0"
    partition.mkdir()
    for file, content in files.items():
        (partition / file).write_bytes(content)
    done = kfmt("check", partition, "--json", "--jobs", "1", *options)
    return done.of("broker_start")


@pytest.mark.parametrize("version", NAMES)
@pytest.mark.parametrize("partition", LAST_WRAPPERS)
def test_a_last_wrapper_that_does_not_decompress_keeps_4_from_starting(
    partition: str, version: str, tmp_path: Path
) -> None:
    files = undecodable(LAST_WRAPPERS[partition], -1)
    for row in starts(files, tmp_path, "--kafka-version", version):
        is_found = row["after"] == "clean-shutdown" or partition in AT_LAST_ENTRY
        expected = {"3.9": True, "4.0": not is_found}.get(version, False)
        assert row["starts"] == expected, row["reason"]
        assert row["kafka_version"] == version
        assert row["observed_on"] == [next(v.observed_on for v in VERSIONS if v.name == version)]
        if not row["starts"]:
            assert "the wrapper cannot be read" in row["reason"]


@pytest.mark.parametrize(
    ("version", "crash", "clean"),
    [
        ("3.9", [[259, 259]], [[259, 259]]),
        ("4.0", [[259, 259]], [[259, 259]]),
        ("4.1", [[221, 239], [259, 318]], [[221, 239], [259, 278]]),
        ("4.2", [[221, 239], [259, 318]], [[221, 239], [259, 278]]),
    ],
)
def test_a_wrapper_in_the_middle_that_does_not_decompress(
    version: str, crash: list[list[int]], clean: list[list[int]], tmp_path: Path
) -> None:
    rows = starts(undecodable(V1_GZIP, 12), tmp_path, "--kafka-version", version)
    assert all(row["starts"] for row in rows), rows
    assert [row["unreachable_offsets"] for row in rows] == [crash, clean]


@pytest.mark.parametrize(
    ("version", "hidden"),
    [("3.9", [[340, 378]]), ("4.0", [[340, 378]]), ("4.1", [[321, 378]]), ("4.2", [[321, 378]])],
)
def test_the_end_of_the_batch_before_a_hole_cannot_be_sought_since_4_1(
    version: str, hidden: list[list[int]], tmp_path: Path
) -> None:
    data = sample(ORDERS)[name(240)]
    places = positions(data)
    hole = with_bytes(data, places[5], bytes(places[6] - places[5]))
    rows = starts({**sample(ORDERS), name(240): hole}, tmp_path, "--kafka-version", version)
    clean = next(row for row in rows if row["after"] == "clean-shutdown")
    assert clean["unreachable_offsets"] == hidden


def test_levels_of_metadata_version() -> None:
    assert [by_level(level).version.name for level in (20, 21, 22, 25, 26, 27, 28, 29, 30)] == [
        *("3.9", "3.9", "4.0", "4.0", "4.1", "4.1", "4.2", "4.2", "4.2"),
    ]
    assert by_level(1).version is OLDEST
    newer = by_level(MOST_LEVEL + 1)
    assert newer.version is NEWEST
    assert "newest that kfmt knows" in newer.words
