"""However work is divided, in groups, splits or processes, the output stays the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.checks.log import small_logs
from kfmt_cli.commands.index_check import command as index_check
from kfmt_cli.commands.index_check.options import IndexCheckOptions
from kfmt_cli.commands.python.command_result import null_run
from kfmt_cli.commands.stat.log_processor import StatProcessor
from kfmt_cli.commands.stat.shape_totals import LogShapeFactory
from kfmt_cli.commands.verify_crc import command as verify
from kfmt_cli.commands.verify_crc import log_processor
from kfmt_cli.commands.verify_crc.options import VerifyCrcOptions
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.execution import item_processor, processes
from kfmt_cli.execution.processes import map_in_processes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.log.summary.log_summary import LogSummary, create_no_shape
from kfmt_cli.rows.file_result import FileResult
from kfmt_cli.rows.types.finding_row import finding_row
from tests.support.mutants import mutant_of
from tests.support.samples import ORDERS, TXN, UPGRADED, environment, kfmt
from tests.support.segments import NAME, positions
from tests.support.waiting import wait_for
from tools.kafka import ROOT, SAMPLES

PARTITIONS = (ORDERS.parent, TXN.parent, SAMPLES / "kafka-3.9.1-broker2/replicated-0")


def comparable_events(events: Any) -> list[object]:
    """Events in a form that can be compared."""
    comparable: list[object] = []
    for event in events:
        if isinstance(event, Finding):
            comparable.append(finding_row(event))
        elif isinstance(event, FileResult):
            comparable.append(
                (event.to_row(), event.counted_as, list(event.findings.iter_suppressed_counts()))
            )
        else:
            comparable.append(event)
    return comparable


def group_separately(files: Any, sizes: Any = None) -> Any:
    """Groups of one file each."""
    del sizes
    return [[file] for file in files]


def damage_files(directory: Path, rng: random.Random, suffixes: tuple[str, ...]) -> None:
    """Change, remove or add some bytes of some files of a partition."""
    files = [path for path in sorted(directory.iterdir()) if path.suffix in suffixes]
    for file in rng.sample(files, rng.randint(1, 3)):
        data = bytearray(file.read_bytes())
        if not data:
            file.write_bytes(bytes(12))
            continue
        position = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[position] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[position:]
        elif kind == 2:
            data += bytes(rng.randrange(1, 25))
        else:
            data[position : position + 4] = rng.randbytes(4)
        file.write_bytes(data)
    if rng.random() < 0.2:
        rng.choice(files).unlink(missing_ok=True)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda item: item.name)
def test_index_check_of_grouped_logs(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(partition.name)

    def check(directory: Path, interval: int) -> list[object]:
        options = IndexCheckOptions(paths=(str(directory),), index_interval_bytes=interval, jobs=1)
        task = index_check.IndexCheckCommand(null_run(), options)
        return comparable_events([*task.find_files((str(directory),)), *task.process_files()])

    n_accused = 0
    for i in range(120):
        directory = tmp_path / str(i)
        shutil.copytree(partition, directory)
        if i:
            damage_files(directory, rng, (".index", ".timeindex", ".log"))
        interval = rng.choice([100, 1024, 4096])
        grouped = check(directory, interval)
        with monkeypatch.context() as patch:
            patch.setattr(item_processor, "group_small_items", group_separately)
            assert check(directory, interval) == grouped, f"mutant {i}"
        n_accused += any(isinstance(event, dict) for event in grouped)
        shutil.rmtree(directory)
    assert n_accused > 60


@pytest.mark.parametrize("deep", [False, True])
def test_verify_crc_of_grouped_logs(
    deep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)

    def check(directory: Path) -> list[object]:
        options = VerifyCrcOptions(paths=(str(directory),), deep=deep, jobs=1)
        task = verify.VerifyCrcCommand(null_run(), options)
        return comparable_events([*task.find_files((str(directory),)), *task.process_files()])

    for i in range(80):
        directory = tmp_path / str(i)
        shutil.copytree(PARTITIONS[i % 3], directory)
        damage_files(directory, rng, (".log",))
        grouped = check(directory)
        with monkeypatch.context() as patch:
            patch.setattr(item_processor, "group_small_items", group_separately)
            assert check(directory) == grouped, f"mutant {i}"
        shutil.rmtree(directory)


def test_stat_of_grouped_logs(tmp_path: Path) -> None:
    rng = random.Random(6)
    n_grouped = n_separate = 0
    for i in range(40):
        directory = tmp_path / str(i)
        shutil.copytree(PARTITIONS[i % 3], directory)
        shutil.copy(UPGRADED, directory)
        (directory / f"{10**6:020}.log").touch()
        damage_files(directory, rng, (".log",))
        logs = [classify_file(str(path), path.name) for path in sorted(directory.glob("*.log"))]
        shapes = LogShapeFactory({log.path: 5 for log in logs[::2]})
        processor = StatProcessor(False, DecompressionLimit(), shapes if i % 3 else create_no_shape)
        tasks = [(log, Selection()) for log in logs]
        for task, result in zip(tasks, processor.process_group(tasks), strict=True):
            n_grouped += result is not None
            n_separate += result is None
            if result is not None:
                assert comparable_numbers(result) == comparable_numbers(
                    processor.process_item(task)
                ), f"mutant {i}, {task[0]}"
        shutil.rmtree(directory)
    assert n_grouped > 100
    assert n_separate > 20


def comparable_numbers(numbers: LogSummary) -> object:
    """Numbers of a log in a form that can be compared."""
    shape = numbers.shape
    shape_parts = shape and [
        asdict(shape.time_buckets),
        shape.counts_by_codec,
        asdict(shape.time_order),
    ]
    segment_map = shape and shape.segment_map
    return repr(
        (
            asdict(numbers.statistics),
            shape_parts,
            segment_map and list(map(list, segment_map.iter_cells())),
        )
    )


def test_a_pipe_is_read_by_itself(tmp_path: Path) -> None:
    """Opening it a second time would lose the data of its writer."""
    pipe = tmp_path / NAME
    os.mkfifo(pipe)
    cat = subprocess.Popen(["bash", "-c", f"cat {ORDERS} > {pipe}"])
    result = kfmt("stat", pipe, TXN, "--by", "segment", "--json")
    assert cat.wait(10) == 0
    assert [row["file"] for row in result.of("stat")] == [str(pipe), str(TXN)]
    result = kfmt("verify-crc", pipe, TXN, "--json")  # now without a writer
    assert result.code == 3
    assert "a named pipe with no writer" in result.err


@pytest.mark.parametrize("log", [ORDERS, TXN, UPGRADED], ids=lambda item: item.parent.name)
def test_a_large_log_in_splits(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each split as a worker process would process it, in this process."""
    monkeypatch.setattr(item_processor, "MIN_LARGE_ITEM_BYTES", 0)
    monkeypatch.setattr(log_processor, "MAX_SPLIT_BYTES", 6000)
    monkeypatch.setattr(log_processor, "MIN_SPLIT_BYTES", 2000)
    monkeypatch.setattr(processes, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(
        item_processor, "map_in_processes", lambda function, items, *_: map(function, items)
    )
    data = log.read_bytes()
    for i in range(60):
        directory = tmp_path / str(i)
        directory.mkdir()
        file = directory / NAME
        file.write_bytes(
            data if not i else bytes(mutant_of(data, positions(data), random.Random(i)).data)
        )
        if i % 2 and log.with_suffix(".index").exists():
            shutil.copy(log.with_suffix(".index"), directory)

        def check(jobs: int, file: Path = file) -> list[object]:
            options = VerifyCrcOptions(paths=(str(file),), deep=True, jobs=jobs)
            task = verify.VerifyCrcCommand(null_run(), options)
            return comparable_events([*task.find_files((str(file),)), *task.process_files()])

        assert check(2) == check(1), f"mutant {i}"
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    "options",
    [["--json"], ["--records", "--json"], ["--records", "--format", "csv"], ["--format", "csv"]],
    ids=" ".join,
)
def test_dump_of_grouped_logs(options: list[str]) -> None:
    directory = ROOT / "damaged_segments"
    grouped = kfmt("dump", directory, *options)
    logs = [
        line.split(",")[0] for line in kfmt("dump", directory, "--format", "csv").out.splitlines()
    ]
    names = list(dict.fromkeys(log for log in logs if log.endswith(".log")))
    separate_lines = []
    for name in names:
        separate_lines += kfmt("dump", name, *options).out.splitlines()
    lines = grouped.out.splitlines()
    if options == ["--json"]:  # of all files
        lines = [line for line in lines if '.log"' in line]
    heading = lines[0]
    if not heading.startswith("{"):
        separate_lines = [heading, *(text for text in separate_lines if text != heading)]
    assert lines == separate_lines


def test_small_logs_are_checked_as_one_group(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    options = VerifyCrcOptions(paths=(str(tmp_path),), deep=True, jobs=1)
    task = verify.VerifyCrcCommand(null_run(), options)
    assert list(task.find_files((str(tmp_path),))) == []
    files = task._files
    assert len(files) == 7
    results = small_logs.check_small_logs(
        small_logs.read_checked_logs(files), True, DecompressionLimit()
    )
    assert all(verified is not None for verified in results)


# Processes.


def square(n: int) -> int:
    return n * n


def end(n: int) -> int:
    if n == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


@pytest.mark.parametrize("at_once", [1, 3])
def test_results_come_in_order(at_once: int) -> None:
    for jobs in (1, 3):
        assert list(map_in_processes(square, range(40), jobs, at_once)) == [
            i * i for i in range(40)
        ]


def test_a_worker_that_is_killed_is_reported() -> None:
    script = (
        "from tests.execution.test_shares import end\n"
        "from kfmt_cli.execution.processes import map_in_processes\n"
        "from kfmt_cli.errors import KfmtError\n"
        "try:\n    list(map_in_processes(end, range(40), 2))\n"
        "except KfmtError as error:\n    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment(), capture_output=True, check=True
    )
    assert b"a worker process was killed" in result.stdout
    assert not result.stderr


def test_an_interrupt_ends_every_process(tmp_path: Path) -> None:
    for i in range(300):
        directory = tmp_path / f"orders-{i}"
        directory.mkdir()
        for log in ORDERS.parent.glob("*.log"):
            os.link(log, directory / log.name) if same_disk(log, directory) else shutil.copy(
                log, directory
            )
    script = (
        "import sys\nfrom kfmt_cli.execution import processes\nprocesses.MIN_PARALLEL_BYTES = 0\n"
        "from kfmt_cli.__main__ import main\nsys.argv[0] = 'kfmt'\nmain()\n"
    )
    command = [sys.executable, "-c", script, "verify-crc", "--deep", "--jobs", "2", str(tmp_path)]
    process = subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_for(lambda: len(children(process.pid)) >= 2 or process.poll() is not None)
    started = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode in (130, 0)
    assert b"Traceback" not in stderr
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


def same_disk(source: Path, directory: Path) -> bool:
    return source.stat().st_dev == directory.stat().st_dev


def children(pid: int) -> list[int]:
    try:
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(text) for text in pids]
