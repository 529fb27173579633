"""Jobs in a session of Spark Connect, on a real server."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.samples import ORDERS, environment, kfmt
from tests.support.spark_cluster import JAVA, until
from tests.support.spark_rows import dumped, exported
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.errors import UsageError
from kfmt_cli.spark.session import check_connect_packages, format_server_address
from kfmt_cli.spark.worker import find_store_variables

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
]
needs_client = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pandas", "grpc", "grpc_status")),
    reason="pyspark[connect] is not installed",
)
BROKER = SAMPLES / "kafka-3.9.1-broker1"
# A task of this job waits, or fails.
HOLDING = """
import signal, sys, time
from pathlib import Path

from kfmt_cli.__main__ import main
from kfmt_cli.spark.jobs import verify

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs in the background

mark = sys.argv.pop(1)

def check(request, pieces, to):
    if not mark:
        raise OSError(28, "No space left on device")
    Path(mark).touch()
    time.sleep(100)

check.__module__ = "__main__"
verify.check_splits_for_job = check
main()
"""


@contextmanager
def server(directory: Path, python: str | Path, **env: str) -> Iterator[str]:
    """The address of a server whose workers run a Python."""
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = environment(
        SPARK_HOME=str(spark_home), SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=str(python), **env
    )
    if not env:
        del variables["PYTHONPATH"]
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(
                    spark_home / "bin/spark-submit",
                    "--master",
                    "local[2]",
                    "--driver-java-options",
                    JAVA,
                ),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *("--conf", f"spark.connect.grpc.binding.port={port}"),
                *("--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.hadoop.fs.s3a.access.key=of the server"),
                "spark-internal",
            ],
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
        )
    try:
        until("no server", lambda: "Connect server started" in log.read_text())
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose workers have kfmt."""
    directory = tmp_path_factory.mktemp("server")
    with server(directory, sys.executable, PYTHONPATH=str(ROOT)) as address:
        yield address


def run(*arguments: str | Path, code: int = 0) -> str:
    """`kfmt pipeline ARGUMENTS`, which prints nothing but its result."""
    result = kfmt("pipeline", *arguments)
    assert (result.code, result.err) == (code, ""), result.out + result.err
    return result.out


@needs_client
def test_damage_is_found(master: str, tmp_path: Path) -> None:
    options = ("--to", tmp_path / "out", "--master", master)
    out = run("verify", ROOT / "damaged_segments", *options, code=1)
    assert "8 segments, 233 723 bytes, 86 batches, 1 720 records, 7 errors" in out


@pytest.mark.clusters
@needs_client
def test_the_jobs_have_the_same_results_as_in_a_classic_session(
    master: str, tmp_path: Path
) -> None:
    classic, connect = tmp_path / "classic", tmp_path / "connect"
    for job in ("verify", "stats", "segments"):
        for to, session_master in ((classic, "local[2]"), (connect, master)):
            run(job, BROKER, "--to", to / job, "--master", session_master, "--format", "json")
        classic_files = {
            path.relative_to(classic): path for path in classic.rglob(f"{job}/**/*.jsonl")
        }
        assert classic_files
        for name, path in classic_files.items():
            assert (connect / name).read_text() == path.read_text()
    run("export", BROKER, "--to", connect / "export", "--master", master)
    assert exported(connect / "export") == dumped(BROKER)
    options = ("--format", "json", "--master", master)
    run("find", BROKER, "--key", "customer-7", "--to", connect / "find", *options)
    assert len((connect / "find/found/part-0.jsonl").read_text().splitlines()) == 23
    run("restore", connect / "export", "--to", connect / "restore", "--master", master)
    log_directory = connect / "restore/log_dir/orders-0"
    assert {log.name for log in log_directory.glob("*.log")} == {f"{0:020}.log"}
    run("compare", log_directory, ORDERS.parent, "--to", connect / "compare", *options)
    (row,) = map(json.loads, (connect / "compare/ranges/part-0.jsonl").read_text().splitlines())
    assert (row["relation"], row["last_offset"]) == ("compacted", 1499)  # without leader epochs
    run("compare", BROKER, connect / "export", "--to", connect / "table", *options)


@pytest.mark.clusters
@needs_client
def test_workers_without_kfmt_get_its_modules(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    with server(tmp_path, venv / "bin/python") as address:
        result = kfmt(
            "pipeline", "verify", ORDERS.parent, "--to", tmp_path / "out", "--master", address
        )
    assert result.code == 0, result.err
    assert result.err.count("\n") == 1
    assert "1 of 1 tasks ran without kfmt's compiled modules" in result.err
    summary = json.loads((tmp_path / "out/_kfmt/summary.json").read_text())
    assert summary["numbers"]["records"] == 1500


@pytest.mark.clusters
@needs_client
def test_a_task_that_fails_and_one_that_is_interrupted(master: str, tmp_path: Path) -> None:
    script, mark = tmp_path / "holding.py", tmp_path / "mark"
    script.write_text(HOLDING)
    for session_master in (master, "local[2]"):
        command = ["pipeline", "verify", str(ORDERS.parent), "--master", session_master]
        failed = subprocess.run(
            [sys.executable, script, "", *command, "--to", tmp_path / "failed"],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert failed.returncode == 3
        message = r"kfmt: job failed: .*\.log: OSError: \[Errno 28\] No space left on device; .*\n"
        assert re.fullmatch(message, failed.stderr)
        process = subprocess.Popen(
            [sys.executable, script, mark, *command, "--to", tmp_path / "held"], env=environment()
        )
        until("no task runs", mark.exists)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        # Python loses an interrupt that comes while it runs a callback of a collected object.
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert time.monotonic() - began < 50
        mark.unlink()


@pytest.mark.clusters
@needs_client
def test_a_server_that_does_not_answer_is_one_line_in_time(tmp_path: Path) -> None:
    command = ["pipeline", "verify", str(ORDERS.parent), "--to", str(tmp_path / "out")]
    began = time.monotonic()
    result = kfmt(*command, "--patience", "3", "--master", "sc://127.0.0.1:9/;token=secret")
    assert (result.code, result.out) == (4, "")
    message = (
        "Spark on sc://127.0.0.1:9 did not respond within 3 s; raise --patience to wait longer"
    )
    assert result.err == f"kfmt: {message}\n"
    assert time.monotonic() - began < 30
    invalid = kfmt(*command, "--master", "sc://127.0.0.1:9/path")
    assert (invalid.code, invalid.err.count("\n")) == (4, 1)


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql.connect.session", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"^sc://host needs .*: pip install 'pyspark\[connect\]'$"):
        check_connect_packages(format_server_address("sc://host/;token=secret"))


def test_a_session_without_a_context_has_the_settings_of_its_stores() -> None:
    settings = {"spark.hadoop.fs.s3a.access.key": "of the server"}
    session: Any = SimpleNamespace(conf=SimpleNamespace(getAll=settings))
    assert find_store_variables(session) == {"AWS_ACCESS_KEY_ID": "of the server"}
