"""A real master and two workers: a process that is killed, or fails, in the middle of an export
costs time and nothing else."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.lake_runs import manifest
from tests.support.samples import ORDERS
from tests.support.segments import positions
from tests.support.spark_cluster import PROCESSES, Cluster, cluster, until
from tests.support.spark_rows import with_index

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.clusters,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    pytest.mark.skipif(not PROCESSES.exists(), reason="there is no /proc"),
]
PARTITIONS, SEGMENTS, TIMES = 6, 8, 40
RECORDS = SEGMENTS * TIMES * 240  # of a partition
TOPIC_PARTITIONS = [("large", 0), *(("many", partition) for partition in range(PARTITIONS))]
UNFINISHED = ".unfinished"


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitions of small segments, which share files, and one log that is split."""
    root = tmp_path_factory.mktemp("logs")
    data = ORDERS.read_bytes()
    batches = [
        (struct.unpack_from(">q", data, position)[0], data[position + 8 : end])
        for position, end in pairwise(positions(data))
    ]

    def repeated(first: int, times: int) -> bytes:
        """The checksums do not cover the offsets."""
        return b"".join(
            struct.pack(">q", first + 240 * i + base) + body
            for i in range(times)
            for base, body in batches
        )

    large_log = repeated(0, SEGMENTS * TIMES)
    with_index(root / "large-0", large_log, large_log)
    for partition in range(PARTITIONS):
        (root / f"many-{partition}").mkdir()
    for segment in range(SEGMENTS):
        first = segment * TIMES * 240
        log = root / f"many-0/{first:020}.log"
        log.write_bytes(repeated(first, TIMES))
        for partition in range(1, PARTITIONS):
            os.link(log, root / f"many-{partition}" / log.name)
    return root


class Export:
    """`kfmt pipeline export` on the cluster, in a process of its own. program: runs instead of
    kfmt."""

    def __init__(
        self, running: Cluster, logs: Path, to: Path, *program: str | Path, split: str = "4M"
    ) -> None:
        sizes = ("--target-file-bytes", "4M", "--max-split-bytes", split)
        command = ("pipeline", "export", logs, "--to", to, "--tables", "records,batches", *sizes)
        self.to = to
        self.process = running.run(*(program or ("-m", "kfmt_cli")), *command)

    def results(self) -> dict[Path, int]:
        """The result files of tasks, with the time at which each was written."""
        return {path: path.stat().st_mtime_ns for path in self.to.glob("_kfmt/done/*.json")}

    def wait_for_writes(self) -> None:
        """Wait until some tasks have finished and one writes."""
        until("no task writes", lambda: len(self.results()) >= 3 and self.unfinished_files())

    def unfinished_files(self) -> list[Path]:
        """Files that tasks have not finished."""
        return list(self.to.rglob(f".*{UNFINISHED}"))

    def output(self, code: int = 0) -> str:
        """Everything it prints until its end."""
        text, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == code, text
        assert "Traceback" not in text
        return text


def assert_each_offset_is_exported_once(logs: Path, export: Export) -> None:
    """Both in the files and in the manifest, which names exactly these files."""
    records = f"{len(TOPIC_PARTITIONS) * RECORDS:,} records".replace(",", " ")
    assert records in export.output()
    files = {
        str(path.relative_to(export.to))
        for table in ("records", "batches")
        for path in export.to.glob(f"{table}/**/*")
    }
    content = manifest(export.to)
    outputs, inputs = content["outputs"], content["inputs"]
    assert {row["file"] for row in outputs} == files
    assert len(files) == len(outputs) > 30
    tables = {name: pq.ParquetFile(export.to / name).read() for name in files}
    assert {row["file"]: row["rows"] for row in outputs} == {
        name: len(table) for name, table in tables.items()
    }
    for table, offset, step in (("records", "offset", 1), ("batches", "base_offset", 20)):
        columns = ["topic", "partition", offset]
        rows = pa.concat_tables(
            rows.select(columns) for name, rows in tables.items() if name.startswith(table)
        )
        assert rows.sort_by([(column, "ascending") for column in columns]) == pa.table(
            [
                [topic for topic, _ in TOPIC_PARTITIONS for _ in range(0, RECORDS, step)],
                pa.array(
                    [
                        partition
                        for _, partition in TOPIC_PARTITIONS
                        for _ in range(0, RECORDS, step)
                    ],
                    pa.int32(),
                ),
                [value for _ in TOPIC_PARTITIONS for value in range(0, RECORDS, step)],
            ],
            names=columns,
        )
    end_offsets = dict.fromkeys(TOPIC_PARTITIONS, 0)
    for row in sorted(inputs, key=lambda row: row["first_offset"]):
        assert end_offsets[row["topic"], row["partition"]] == row["first_offset"]
        end_offsets[row["topic"], row["partition"]] = row["last_offset"] + 1
    assert set(end_offsets.values()) == {RECORDS}
    assert sum(row["end"] - row["start"] for row in inputs) == sum(
        path.stat().st_size for path in logs.rglob("*.log")
    )
    assert export.unfinished_files() == []


def test_an_executor_that_is_killed(spark_cluster: Cluster, logs: Path, tmp_path: Path) -> None:
    export = Export(spark_cluster, logs, tmp_path)
    export.wait_for_writes()
    spark_cluster.kill_executor_that_writes(UNFINISHED)
    assert export.unfinished_files()
    assert export.process.poll() is None
    before = export.results()
    assert_each_offset_is_exported_once(logs, export)
    after = export.results()
    assert 3 <= len(before) < len(after)
    assert before.items() <= after.items()


def test_a_driver_that_is_killed(spark_cluster: Cluster, logs: Path, tmp_path: Path) -> None:
    """The same command runs again at once."""
    export = Export(spark_cluster, logs, tmp_path)
    export.wait_for_writes()
    export.process.kill()
    export.process.communicate()
    before = export.results()
    again = Export(spark_cluster, logs, tmp_path)
    assert_each_offset_is_exported_once(logs, again)
    after = again.results()
    assert 3 <= len(before) < len(after)
    assert before.items() <= after.items()


# The first six tasks fail once each: while they write, when they close a file, or after they have
# written all files. The tasks of some logs always fail, after they finish their first file.
FAILING = """
import sys
from pathlib import Path

from kfmt_cli.__main__ import main
from kfmt_cli.spark.jobs import export_job

marks, always = Path(sys.argv.pop(1)), sys.argv.pop(1)
export = export_job.create_export_function

def way_to_fail(piece):
    try:
        name = f"{piece.topic_partition[1]}-{piece.base_offset}-{piece.start}"
        (marks / name).touch(exist_ok=False)
    except FileExistsError:
        return None
    for number in range(6):
        try:
            (marks / f"failure-{number}").touch(exist_ok=False)
            return number % 3
        except FileExistsError:
            continue

def failing(lake, run=0):
    work = export(lake, run)

    def fails(request, pieces, to):
        from kfmt_cli.arrow.export.lake_options import _OpenExportFile

        write, close = _OpenExportFile.write_rows, _OpenExportFile.close
        first = pieces[0]
        is_always = always in first.path
        how = None if is_always else way_to_fail(first)
        if how is None and not is_always:
            return work(request, pieces, to)

        def end(file, *rows):
            is_second = file._exported_file.table == "batches"
            (write if rows else close)(file, *rows)
            if is_second if is_always else how == (0 if rows else 1):
                raise OSError(28, "No space left on device")

        _OpenExportFile.write_rows = _OpenExportFile.close = end
        try:
            work(request, pieces, to)
        finally:
            _OpenExportFile.write_rows, _OpenExportFile.close = write, close
        raise MemoryError("all is written")

    return fails

export_job.create_export_function = failing
main()
"""


def test_tasks_that_fail_after_some_rows(
    spark_cluster: Cluster, logs: Path, tmp_path: Path
) -> None:
    """A failed job leaves files under final names. The next job groups segments differently, and
    must delete these files."""
    to, script = tmp_path / "out", tmp_path / "failing.py"
    script.write_text(FAILING)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    stopped = Export(spark_cluster, logs, to, script, tmp_path / "first", "many-2")
    assert "No space left on device" in stopped.output(code=3)
    assert not (to / "_kfmt/manifest.json").exists()
    result_text = "".join(path.read_text() for path in stopped.results())
    leftover = [path for path in to.glob("**/records/many-*") if path.name not in result_text]
    assert leftover
    again = Export(spark_cluster, logs, to, script, tmp_path / "second", "none", split="3M")
    assert_each_offset_is_exported_once(logs, again)
    assert not any(path.exists() for path in leftover)
    assert len(list(tmp_path.glob("second/failure-*"))) >= 3
