"""The data of a report from the tables of jobs: totals by partition and topic, times, findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.commands.report.job_report import gather_job_data
from kfmt_cli.errors import ExitCode
from kfmt_cli.rows.documents import FINDING_ROW
from tests.render.test_report import job

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")


def segment(file: str, base_offset: int, times: tuple[str | None, str | None], **extra: Any) -> Any:
    topic, _, partition = file.split("/")[-2].rpartition("-")
    return {
        "file": file,
        "topic": topic,
        "partition": int(partition),
        "base_offset": base_offset,
        "bytes": 100,
        "batches": 4,
        "records": 10,
        "first_offset": base_offset,
        "last_offset": base_offset + 9,
        "min_timestamp": times[0],
        "max_timestamp": times[1],
        "codecs": ["gzip"],
        "magics": [2],
        **extra,
    }


SEGMENTS = [
    segment("/d/a-0/00000000000000000000.log", 0, ("1970-01-01T00:00:01", "1970-01-01T00:00:03")),
    segment(
        "/d/a-0/00000000000000000010.log",
        10,
        ("1970-01-01T00:00:02.500+00:00", "1970-01-01T01:00:00+01:00"),
        codecs=["lz4", "gzip"],
        bytes=50,
    ),
    segment("/d/a-1/00000000000000000000.log", 0, (None, None), records=3, batches=0),
    segment("/d/b-0/00000000000000000000.log", 0, (None, None), codecs=[], magics=[1, 0]),
    segment("/d/__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", 5, (None, None)),
]
COUNT_COLUMNS = ("segments", "bytes", "batches", "records", "records_per_batch")


def stat_rows(directory: Path, tables: dict[str, list[Any]]) -> Sequence[dict[str, Any]]:
    return gather_job_data((str(job(directory, "verify", tables)),)).rows_of_type("stat")


def test_logs_are_summed_by_partition_and_by_topic(tmp_path: Path) -> None:
    rows = stat_rows(tmp_path, {"segments": SEGMENTS})
    assert [(row["topic"], row["partition"]) for row in rows] == [
        *(("a", 0), ("a", 1), ("b", 0), ("a", None), ("b", None))
    ]
    assert [[row[name] for name in COUNT_COLUMNS] for row in rows] == [
        *([2, 150, 8, 20, 2.5], [1, 100, 0, 3, None], [1, 100, 4, 10, 2.5]),
        *([3, 250, 8, 23, 2.88], [1, 100, 4, 10, 2.5]),
    ]
    assert [row["file"] for row in rows] == ["/d/a-0", "/d/a-1", "/d/b-0", "/d", "/d"]
    assert [row["log_dir"] for row in rows] == ["/d", "/d", "/d", None, None]
    first = rows[0]
    assert (first["first_offset"], first["last_offset"]) == (0, 19)
    assert (first["min_timestamp"], first["max_timestamp"]) == (1000, 3000)
    assert [*first["codecs"]] == ["gzip", "lz4"]
    assert rows[3]["min_timestamp"] == 1000
    assert rows[1]["min_timestamp"] is None


def test_each_log_is_a_row_of_its_topics_page(tmp_path: Path) -> None:
    data = gather_job_data((str(job(tmp_path, "segments", {"segments": SEGMENTS})),))
    strips = data.rows_of_type("segment_strip")
    assert [(row["file"], row["base_offset"], row["bytes"], row["cells"]) for row in strips] == [
        (row["file"], row["base_offset"], row["bytes"], []) for row in SEGMENTS[:4]
    ]
    assert (strips[0]["min_timestamp"], strips[1]["max_timestamp"]) == (1000, 0)
    assert data.exit_code is ExitCode.CLEAN


def test_statistics_count_where_no_logs_are_known(tmp_path: Path) -> None:
    def partition(topic: str, index: int | None) -> Any:
        return {
            "topic": topic,
            "partition": index,
            "bytes": 7,
            "batches": 2,
            "records": 9,
            "first_offset": 4,
            "last_offset": 12,
            "first_time": "1970-01-01T00:00:05",
            "last_time": "1970-01-01T00:00:06",
            "codecs": "gzip, lz4",
            "magics": [2],
        }

    tables = {"segments": SEGMENTS[:2], "partitions": [partition("a", 0), partition("c", 3)]}
    rows = stat_rows(tmp_path, tables)
    assert [(row["file"], row["topic"], row["partition"]) for row in rows] == [
        *(("/d/a-0", "a", 0), ("c-3", "c", 3), ("/d", "a", None), ("", "c", None))
    ]
    assert [[row[name] for name in COUNT_COLUMNS] for row in rows[:2]] == [
        *([2, 150, 8, 20, 2.5], [0, 7, 2, 9, 4.5])
    ]
    assert (rows[1]["min_timestamp"], rows[1]["max_timestamp"]) == (5000, 6000)
    assert [*rows[1]["codecs"]] == ["gzip", "lz4"]


def finding(severity: str) -> dict[str, Any]:
    row: dict[str, Any] = {column.name: None for column in FINDING_ROW.columns}
    row |= {"file": "/d/a-0/x.log", "severity": severity, "code": "crc-mismatch"}
    return row | {"message": "bad", "topic": "a", "partition": 0, "log_dir": "/d"}


@pytest.mark.parametrize(
    ("severity", "code"), [("error", ExitCode.FINDINGS), ("warning", ExitCode.CLEAN)]
)
def test_errors_of_a_job_are_the_pages(severity: str, code: ExitCode, tmp_path: Path) -> None:
    data = gather_job_data((str(job(tmp_path, "verify", {"findings": [finding(severity)]})),))
    assert [(row["code"], row["severity"]) for row in data.rows_of_type("finding")] == [
        ("crc-mismatch", severity)
    ]
    assert data.exit_code is code
    (page,) = data.rows_of_type("report")
    assert page["paths"] == ["/disks"]


def test_jobs_over_the_same_logs_count_each_once(tmp_path: Path) -> None:
    tables = {"segments": SEGMENTS[:3], "findings": [finding("error"), finding("note")]}
    audit, repeated = (str(job(tmp_path / name, "verify", tables)) for name in ("audit", "more"))
    expected = gather_job_data((audit,))
    for paths in ((audit, f"{audit}/_kfmt"), (audit, audit), (audit, repeated)):
        data = gather_job_data(paths)
        for type_ in ("stat", "finding", "segment_strip"):
            assert data.rows_of_type(type_) == expected.rows_of_type(type_)
        assert data.finding_counts == expected.finding_counts


def test_a_job_that_checks_nothing_finds_nothing_undamaged(tmp_path: Path) -> None:
    tables = {"segments": SEGMENTS[:3]}
    assert gather_job_data((str(job(tmp_path / "a", "verify", tables)),)).is_checked
    assert not gather_job_data((str(job(tmp_path / "b", "segments", tables)),)).is_checked
