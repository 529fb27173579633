"""A directory whose name is not a partition's stops the broker, and every output says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import ORDERS, sample
from tests.support.samples import kfmt


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders-", "does not end in"),
        ("orders-99999999999", "is above 2147483647"),
        ("orders-2147483648", "is above 2147483647"),
    ],
)
def test_one_verdict_on_a_directory_with_logs(name: str, reason: str, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    for file_name, content in sample(ORDERS).items():
        (directory / file_name).write_bytes(content)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    result = kfmt("check", tmp_path, "--json", "--jobs", "1")
    assert set(result.codes) == {"directory-not-a-partition"}
    starts = result.of("broker_start")
    assert [(row["file"], row["after"], row["starts"]) for row in starts] == [
        (str(directory), "crash", False),
        (str(directory), "clean-shutdown", False),
    ]
    assert all(reason in row["reason"] for row in starts)
    assert [row["starts"] for row in result.of("log_directory")] == [False]
    text = kfmt("check", tmp_path).out
    assert "intact" not in text
    assert "Nothing in this partition is lost" not in text


def test_the_largest_partition_number_is_a_partition(tmp_path: Path) -> None:
    directory = tmp_path / "orders-2147483647"
    directory.mkdir()
    for file_name, content in sample(ORDERS).items():
        (directory / file_name).write_bytes(content)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    result = kfmt("check", tmp_path, "--json", "--jobs", "1")
    assert all(row["starts"] for row in result.of("broker_start"))
