"""The data source and the jobs in real Spark sessions."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake_runs import manifest
from tests.support.samples import ORDERS, TXN, environment, kfmt
from tests.support.spark_job import Job
from tests.support.spark_rows import Key, dumped, exported, record_keys
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

from pyspark.errors import PySparkException  # noqa: E402

from kfmt_cli.errors import SessionError  # noqa: E402
from kfmt_cli.spark import session as sessions  # noqa: E402
from kfmt_cli.spark.session import find_failure_reason  # noqa: E402

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    # Spark 4.0 leaves the sockets that it collects results through to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
BROKERS = sorted(path for path in SAMPLES.iterdir() if path.is_dir())
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def records(frame: Any) -> list[Key]:
    """A frame's rows in the form of `spark_rows`."""
    with_micros = frame.selectExpr("*", "unix_micros(timestamp) AS micros").drop("timestamp")
    return record_keys(row.asDict(recursive=True) for row in with_micros.collect())


@pytest.mark.parametrize("directory", BROKERS, ids=lambda item: item.name)
def test_records_over_spark_are_those_of_dump(directory: Path, spark: Any) -> None:
    frame = spark.read.format("kfmt").option("maxSplitBytes", 400_000).load(str(directory))
    assert records(frame) == dumped(directory)


def test_several_paths_a_view_and_sql(spark: Any) -> None:
    paths = [str(ORDERS.parent), str(TXN.parent)]
    assert spark.read.format("kfmt").load(paths).count() == 1500 + 736
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW segments USING kfmt "
        f"OPTIONS (path '{ORDERS.parent}', table 'segments')"
    )
    (row,) = spark.sql(
        "SELECT sum(records) AS n, min(base_offset) AS first FROM segments"
    ).collect()
    assert (row.n, row.first) == (1500, 0)
    keys = spark.read.format("kfmt").option("columns", "key").load(paths[0])
    assert keys.columns == ["key"]


def test_schemas_are_those_that_are_documented(spark: Any) -> None:
    from kfmt_cli.rows.table_types import TABLES
    from kfmt_cli.spark.tables import spark_type

    for name, rows in TABLES.items():
        frame = spark.read.format("kfmt").option("table", name).load(str(ORDERS.parent))
        fields = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert fields == {column.name: spark_type(column) for column in rows.leaves}
        assert all(field.nullable for field in frame.schema)
        frame.collect()


def test_damage_is_rows_and_failfast_stops(spark: Any) -> None:
    directory = ROOT / "damaged_segments"
    assert records(spark.read.format("kfmt").load(str(directory))) == dumped(directory, code=1)
    findings = spark.read.format("kfmt").option("table", "findings").load(str(directory))
    assert "crc-mismatch" in {row.code for row in findings.collect()}
    strict = spark.read.format("kfmt").option("mode", "FAILFAST")
    with pytest.raises(Exception, match=r"flipped-bit-0/0+\.log byte 7702: crc-mismatch"):
        strict.load(str(directory / "flipped-bit-0")).count()


def test_errors_are_reported_when_the_query_is_planned(spark: Any) -> None:
    with pytest.raises(Exception, match="no table 'x'"):
        spark.read.format("kfmt").option("table", "x").load(str(ORDERS.parent)).count()
    with pytest.raises(Exception, match="No such file"):
        spark.read.format("kfmt").load("/no/such/folder").count()
    assert spark.read.format("kfmt").option("topics", "none").load(str(ORDERS.parent)).count() == 0


def test_filters_are_pushed_only_where_both_sides_ask(spark: Any) -> None:
    def count(condition: str, **options: str) -> int:
        frame = spark.read.format("kfmt").options(**options).load(str(ORDERS.parent))
        n: int = frame.where(condition).count()
        return n

    conditions = {
        "offset >= 100 AND offset < 300": 200,
        "offset = 7": 1,
        "topic = 'orders' AND offset > 1489": 10,
        "topic = 'other'": 0,
        "timestamp < timestamp'2023-11-14 22:13:30'": 0,
    }
    by_time = "timestamp < timestamp'2023-11-14 22:13:30'"
    conditions[by_time] = count(by_time)
    assert conditions[by_time] > 0
    for enabled in ("false", "true"):
        spark.conf.set(PUSHDOWN, enabled)
        try:
            for condition, expected in conditions.items():
                assert count(condition) == expected
                assert count(condition, filterPushdown="true") == expected
        finally:
            spark.conf.unset(PUSHDOWN)


def test_why_a_query_failed_is_one_line(spark: Any) -> None:
    damaged = ROOT / "damaged_segments/flipped-bit-0"
    for path, table, message in (
        (damaged, "records", r"/.*/flipped-bit-0/0+\.log byte 7702: crc-mismatch: batch 3, .*"),
        ("/no/such/folder", "records", "/no/such/folder: No such file or directory"),
        (damaged, "x", "kfmt: no table 'x'; choose from .*"),
    ):
        strict = spark.read.format("kfmt").option("mode", "FAILFAST").option("table", table)
        with pytest.raises(PySparkException) as caught:
            strict.load(str(path)).count()
        assert re.fullmatch(message, find_failure_reason(caught.value))


def test_a_task_that_is_killed_is_done_again(spark: Any, tmp_path: Path) -> None:
    """A worker dies in its first attempt; the result is complete and has nothing twice."""
    marker = tmp_path / "died"

    def work(index: int) -> int:
        if index == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    assert spark.sparkContext.parallelize(range(3), 3).map(work).collect() == [0, 1, 2]
    assert marker.exists()


def run(*arguments: str | Path, code: int = 0) -> str:
    """`kfmt pipeline ARGUMENTS` in a process with a session of its own."""
    result = kfmt("pipeline", *arguments)
    assert result.code == code, result.out + result.err
    assert "WARN" not in result.err
    return result.out


def test_export_is_resumed_and_has_nothing_twice(job: Job, tmp_path: Path) -> None:
    source, to = tmp_path / "in", tmp_path / "out"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker2", source)
    result = job("export", source, "--to", to, "--tables", "records,batches")
    assert "exit 0" in result.out
    expected = dumped(source)
    assert exported(to) == expected
    topics = [pq.ParquetFile(path).read()["topic"] for path in to.rglob("records/**/*.parquet")]
    assert "replicated" in {topic for column in topics for topic in column.to_pylist()}
    assert {row["file"] for row in manifest(to)["inputs"]} >= {
        str(log) for log in source.rglob("0*.log")
    }
    times = {path: path.stat().st_mtime_ns for path in to.rglob("records/**/*.parquet")}
    # Half of the results are deleted, and one input changes: only these are processed again.
    results = sorted((to / "_kfmt/done").iterdir())
    for path in results[::2]:
        path.unlink()
    log = next(source.glob("txn-1/*0.log"))
    log.write_bytes(log.read_bytes()[:-100])
    job("export", source, "--to", to, "--tables", "records,batches", code=1)
    after = {path: path.stat().st_mtime_ns for path in to.rglob("records/**/*.parquet")}
    assert sum(times[time] == after.get(time) for time in times) >= len(results) // 2 - 1
    assert exported(to) == dumped(source, code=1)
    refused = job("export", source, "--to", to, "--format", "csv", code=2)
    assert "a run with other options" in refused.err


@pytest.mark.clusters
def test_a_job_that_is_killed_goes_on(tmp_path: Path) -> None:
    to = tmp_path / "out"
    source = SAMPLES / "kafka-3.9.1-broker1"
    command = [sys.executable, "-m", "kfmt_cli", "pipeline", "export", str(source), "--to", str(to)]
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, start_new_session=True
    )

    def kill_when_some_are_done() -> None:
        for _ in range(600):
            results = to / "_kfmt/done"
            if results.exists() and any(results.glob("*.json")):
                break
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_some_are_done)
    killer.start()
    killer.join()
    process.wait()
    for _ in range(100):  # its workers
        time.sleep(0.05)
    run("export", source, "--to", to)
    assert exported(to) == dumped(source)
    unfinished = [path.name for path in to.rglob("*.unfinished")]
    assert all(name.startswith(".") for name in unfinished)


@pytest.mark.parametrize("options", [("--last", "40"), ("--isolation", "read_committed")])
def test_an_export_of_what_only_all_logs_say(
    options: tuple[str, ...], job: Job, tmp_path: Path
) -> None:
    """The driver reads them; the results depend on the selections that it finds."""
    source = tmp_path / "logs/txn-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-live/txn-0", source)
    command = ("export", source, "--to", tmp_path / "job", *options)
    job(*command)
    result = kfmt("export", source, "--to", tmp_path / "here", *options)
    assert result.code == 0, result.err
    assert exported(tmp_path / "job") == exported(tmp_path / "here")
    job(*command)
    (source / f"{10**6:020}.log").write_bytes(ORDERS.read_bytes())
    job(*command, code=1)
    result = kfmt("export", source, "--to", tmp_path / "again", *options)
    assert result.code == 1, result.err
    assert exported(tmp_path / "job") == exported(tmp_path / "again")


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_export_as_text_is_what_dump_prints(format_: str, job: Job, tmp_path: Path) -> None:
    to = tmp_path / "out"
    job(
        "export", TXN, "--to", to, "--format", format_, "--from-offset", "100", "--to-offset", "120"
    )
    (file,) = (to / "records").rglob("*.*")
    options = ("--records", "--format", format_, "--from-offset", "100", "--to-offset", "120")
    expected = kfmt("dump", TXN.absolute(), *options).out
    lines = file.read_text().splitlines()
    offsets = [json.loads(line)["offset"] for line in lines if '"type":"record"' in line]
    if format_ == "json":
        assert offsets == list(range(100, 121))
        assert [line for line in lines if '"record"' in line] == [
            line for line in expected.splitlines() if '"record"' in line
        ]
    else:
        assert file.read_text() == expected


def test_verify_says_what_verify_crc_says(job: Job, tmp_path: Path) -> None:
    directory = ROOT / "damaged_segments"
    out = job(
        "verify", directory, "--to", tmp_path / "out", "--format", "json", "--deep", code=1
    ).out
    assert "7 damaged" in out
    findings = [
        json.loads(line)
        for line in (tmp_path / "out/findings/part-0.jsonl").read_text().splitlines()
    ]
    expected = kfmt("verify-crc", "--deep", directory, "--json").of("finding")
    assert sorted((item["code"], item["position"]) for item in findings) == sorted(
        (row["code"], row["position"]) for row in expected
    )
    segments = [
        json.loads(line)
        for line in (tmp_path / "out/segments/part-0.jsonl").read_text().splitlines()
    ]
    assert sum(segment["errors"] > 0 for segment in segments) == 7
    again = job(
        "verify", directory, "--to", tmp_path / "out", "--format", "json", "--deep", code=1
    ).out
    assert again == out


def test_segments_and_stats(job: Job, tmp_path: Path) -> None:
    broker = SAMPLES / "kafka-3.9.1-broker1"
    job("segments", broker, "--to", tmp_path / "segments", "--format", "csv")
    lines = (tmp_path / "segments/segments/part-0.csv").read_text().splitlines()
    assert len(lines) == 1 + 43
    out = job("stats", broker, "--to", tmp_path / "stats").out
    assert "orders" in out
    topics = {
        item["topic"]: item for item in pq.read_table(tmp_path / "stats/topics.parquet").to_pylist()
    }
    assert (topics["orders"]["records"], topics["orders"]["batches"]) == (1500, 75)
    assert topics["txn"]["codecs"] == "lz4,none,zstd"
    producers = pq.read_table(tmp_path / "stats/producers.parquet").to_pylist()
    assert {producer["producer_id"] for producer in producers if producer["topic"] == "txn"} >= {
        0,
        1,
        2,
        1000,
    }
    assert job("stats", broker, "--to", tmp_path / "stats").out == out
    summary = json.loads((tmp_path / "stats/_kfmt/summary.json").read_text())
    assert summary["numbers"] == {"topics": 17, "partitions": 17, "producers": 33}
    assert (summary["job"], summary["files"], summary["unread"]) == ("stats", 40, [])


def test_a_file_that_vanishes_and_paths_that_nobody_sees(
    spark: Any, job: Job, tmp_path: Path
) -> None:
    from dataclasses import replace

    from kfmt_cli.spark.jobs import export_job as export
    from kfmt_cli.spark.jobs.context import JobContext
    from kfmt_cli.spark.source_options import parse_request

    source = tmp_path / "in"
    shutil.copytree(ORDERS.parent, source / "orders-0")
    request = replace(parse_request({"ignoreUnreadable": "true"}), paths=(str(source),))
    vanishing_log = source / "orders-0/00000000000000000480.log"

    class Vanishing:
        """A session whose tasks do not find one file."""

        def __getattr__(self, name: str) -> Any:
            vanishing_log.unlink(missing_ok=True)
            return getattr(spark, name)

    vanishing: Any = Vanishing()
    context = JobContext(vanishing, request, str(tmp_path / "out"), "parquet", lambda _: None)
    summary = export.run_job(context)
    assert (summary.n_errors, summary.n_vanished) == (1, 1)
    assert len(exported(tmp_path / "out")) == 1500 - 240
    missing = job("verify", tmp_path / "none", "--to", tmp_path / "x", code=3)
    assert "No such file" in missing.err
    job("verify", source, "--to", source, code=2)


@pytest.mark.clusters
def test_a_cluster_of_processes(tmp_path: Path) -> None:
    import pyspark

    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("*")) if work.exists() else set()
    try:
        to = tmp_path / "out"
        run("export", ORDERS.parent, "--to", to, "--master", "local-cluster[2,1,1024]")
        assert exported(to) == dumped(ORDERS.parent)
    finally:
        for path in set(work.glob("*")) - before if work.exists() else ():
            shutil.rmtree(path, ignore_errors=True)


def test_java_that_is_missing_or_too_old_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match="has no bin/java"):
        sessions.check_java()
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    for version, is_rejected in (
        ("1.8.0_392", True),
        ("11.0.2", True),
        ("17.0.1", False),
        ("25", False),
    ):
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        if is_rejected:
            with pytest.raises(SessionError, match="needs Java 17 or newer"):
                sessions.check_java()
        else:
            sessions.check_java()
    java.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SessionError, match="reports no version"):
        sessions.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError, match="java was not found"):
        sessions.check_java()
