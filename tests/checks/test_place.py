"""A log directory's files in a partition are the cause of nothing, as seen with UnifiedLog of 3.9.1
and 4.4.0: Kafka looks at their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import ORDERS, sample
from tests.support.samples import kfmt

NAMES = (
    *("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "meta.properties"),
    *("replication-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_log_directorys_file_in_a_partition_is_the_cause_of_nothing(
    name: str, tmp_path: Path
) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for file_name, content in sample(ORDERS).items():
        (partition / file_name).write_bytes(content)
    (partition / name).write_text("0\n15\nno number\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    result = kfmt("check", tmp_path, "--json", "--jobs", "1")
    assert (result.code, list(result.codes)) == (0, [])
    assert all(row["starts"] for row in result.of("broker_start"))
    assert [row["file"] for row in result.of("log_directory")] == [str(tmp_path)]
