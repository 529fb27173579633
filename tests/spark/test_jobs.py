"""Jobs in an existing session: reports of damage, of deleted inputs and of unusual names."""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docs import examples
from tests.support.lake_runs import manifest
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, with_bytes
from tests.support.spark_job import Job
from tests.support.spark_rows import dumped, exported, make_unlistable, with_index

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from kfmt_cli.commands.pipeline.options import pipeline
from kfmt_cli.errors import InputError
from kfmt_cli.spark import session as sessions
from kfmt_cli.spark import split_processing
from kfmt_cli.spark.jobs import verify

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    # Spark 4.0 leaves the sockets that it collects results through to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def in_this_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process use the module's session."""

    @contextmanager
    def existing_session(*_: object) -> Iterator[Any]:
        yield lambda: spark

    monkeypatch.setattr(sessions, "start_session", existing_session)


def run_job(*arguments: str) -> int:
    """Run a job in this process and return its exit code. click stores state in a command that it
    runs, so that this runs a copy."""
    code: int = copy.deepcopy(pipeline).main(arguments, standalone_mode=False)
    return code


@pytest.mark.usefixtures("in_this_session")
def test_why_a_job_failed_is_said_with_the_file_and_the_command_for_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("two\nlines of it")

    monkeypatch.setattr(verify, "check_splits_for_job", fails)
    to = tmp_path / "a b"
    arguments = ["verify", str(ORDERS), "--to", str(to)]
    monkeypatch.setattr(sys, "argv", ["kfmt", "pipeline", *arguments])
    with pytest.raises(InputError) as caught:
        run_job(*arguments)
    assert str(caught.value) == (
        f"job failed: {ORDERS}: ValueError: two; for the full traceback, run: "
        f"kfmt pipeline verify {ORDERS} --to '{to}' --traceback"
    )
    assert not capsys.readouterr().err
    with pytest.raises(InputError, match=r"ValueError: two$"):
        run_job(*arguments, "--traceback")
    assert "in fails" in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_session")
@pytest.mark.parametrize("misaligned", [False, True])
def test_verify_of_a_file_in_pieces_says_what_verify_crc_says(
    misaligned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    repeated = with_bytes(data[: starts[8]] + data[starts[4] :], starts[10] + 100, b"harm")
    log = with_index(tmp_path / "in", repeated, repeated)
    expected = kfmt("verify-crc", "--deep", log, "--json").of("finding")
    assert [row["code"] for row in expected] == ["offsets-backwards", "crc-mismatch"]
    if misaligned:  # as if damage reached from one split into the next
        monkeypatch.setattr(
            "kfmt_cli.spark.split_processing.find_misaligned_files",
            lambda findings: {str(log)} if len(list(findings)) > 1 else set(),
        )
    to = tmp_path / "out"
    for job, options in (("verify", ["--deep"]), ("export", [])):
        command = [job, str(log), "--to", f"{to}/{job}", "--format", "json", *options]
        for _ in range(2):  # the second time nothing remains to do
            assert run_job(*command, "--max-split-bytes", "4000") == 1
            lines = (to / job / "findings/part-0.jsonl").read_text().splitlines()
            names = ("code", "position", "message", "offset")
            findings = [[json.loads(line)[name] for name in names] for line in lines]
            assert findings == [[row[name] for name in names] for row in expected]
        results = [json.loads(path.read_text()) for path in (to / job / "_kfmt/done").iterdir()]
        split_names = {name for item in results for name in item}
        assert len(split_names) > 5 or misaligned
    rows = [
        json.loads(line) for line in (to / "verify/segments/part-0.jsonl").read_text().splitlines()
    ]
    assert [(row["batches"], row["errors"]) for row in rows] == [(16, 2)]
    assert sum(path.read_text().count('"record"') for path in to.rglob("records/**/*.jsonl")) == 320


@pytest.mark.usefixtures("in_this_session")
def test_a_directory_that_cannot_be_read_is_skipped_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "in/orders-0")
    closed = tmp_path / "in/lost+found"
    closed.mkdir()
    make_unlistable(closed, monkeypatch)
    for job in ("verify", "export", "segments", "stats"):
        assert run_job(job, str(tmp_path / "in"), "--to", str(tmp_path / job)) == 3
        output = capfd.readouterr()
        assert f"kfmt: {closed}: Permission denied\n" in output.err
        assert "1 input not read   exit 3" in output.out
        assert "no damage" not in output.out
    assert len(exported(tmp_path / "export")) == 1500


@pytest.mark.usefixtures("in_this_session")
def test_an_input_that_is_gone_is_gone_from_a_copy_in_step(tmp_path: Path) -> None:
    """A broker deletes the oldest segments while a job is resumed."""
    source, to = tmp_path / "in/orders-0", tmp_path / "out"
    shutil.copytree(ORDERS.parent, source)
    for name in ("leader-epoch-checkpoint", ORDERS.name, f"{720:020}.log"):
        (source / name).unlink()
        for job, options in (("export", ["--mode", "sync"]), ("verify", [])):
            assert run_job(job, str(tmp_path / "in"), "--to", str(to / job), *options) == 0
        assert exported(to / "export") == dumped(source)
        assert len(manifest(to / "export")["inputs"]) == len(list(source.glob("*.log")))


@pytest.mark.usefixtures("in_this_session")
def test_names_that_are_no_text(tmp_path: Path) -> None:
    directory = tmp_path / "in" / os.fsdecode(b"or\xffders-0")
    shutil.copytree(ORDERS.parent, directory)
    log = directory / ORDERS.name
    log.write_bytes(with_bytes(log.read_bytes(), 5000, b"harm"))
    for job in ("verify", "export", "segments", "stats"):
        for _ in range(2):  # the second time from stored results
            to = tmp_path / job
            assert run_job(job, str(tmp_path / "in"), "--to", str(to), "--format", "json") == 1
    file = str(tmp_path / "in") + r"/or\xffders-0/" + ORDERS.name
    for table in ("verify/segments", "verify/findings", "segments/segments"):
        lines = (tmp_path / f"{table}/part-0.jsonl").read_text().splitlines()
        row = json.loads(lines[0])
        assert (row["file"], row["topic"]) == (file, r"or\xffders")
    (topic,) = (tmp_path / "stats/topics.jsonl").read_text().splitlines()
    assert json.loads(topic)["topic"] == r"or\xffders"


def test_the_examples_of_the_help_work(job: Job, tmp_path: Path) -> None:
    for example in examples("pipeline", tmp_path):
        result = job(*example[1:], code=1 if "damaged_segments" in " ".join(example) else 0)
        assert result.out


@pytest.mark.usefixtures("in_this_session")
def test_workers_without_compiled_modules_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process_task = split_processing._process_task
    monkeypatch.setattr(
        split_processing,
        "_process_task",
        lambda *arguments: process_task(*arguments) or split_processing.INTERPRETED_MARKER,
    )
    assert run_job("verify", str(ORDERS), "--to", str(tmp_path / "to")) == 0
    assert "1 of 1 tasks ran without kfmt's compiled modules" in caplog.text
