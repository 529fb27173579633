"""A real Spark cluster on this machine: a master and workers, each in its own process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.samples import environment
from tools.kafka import SHORT_LIVED

MAX_SECONDS = 180  # seconds
JAVA = " ".join(SHORT_LIVED)
EXECUTOR = b"CoarseGrainedExecutorBackend"
PROCESSES = Path("/proc")


def until(message: str, condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true; return its value. message: of the error after too long."""
    deadline = time.monotonic() + MAX_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, message
        time.sleep(0.005)
    return value


def parents() -> dict[int, int]:
    """The parent of each process."""
    parent_by_pid = {}
    for stat_file in PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            parent_by_pid[int(stat_file.parent.name)] = int(
                stat_file.read_text().rpartition(")")[2].split()[1]
            )
    return parent_by_pid


def has_open(process: int, suffix: str) -> bool:
    """Whether a process has a file with a suffix open."""
    with suppress(OSError):
        return any(
            os.readlink(handle).endswith(suffix)  # noqa: PTH115 (names of sockets are no paths)
            for handle in (PROCESSES / str(process) / "fd").iterdir()
        )
    return False


@dataclass
class Cluster:
    """A master and its workers."""

    directory: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    master: str = ""

    def start(self, role: str, *arguments: str) -> Path:
        """Start the master or a worker; return its log."""
        import pyspark

        spark_home = Path(pyspark.__file__).parent
        log = self.directory / f"{len(self.processes)}.log"
        address = ["--host", "127.0.0.1", "--webui-port", "0"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    spark_home / "bin/spark-class",
                    f"org.apache.spark.deploy.{role}",
                    *address,
                    *arguments,
                ],
                env=environment(
                    SPARK_HOME=str(spark_home),
                    SPARK_LOCAL_IP="127.0.0.1",
                    SPARK_DAEMON_JAVA_OPTS=JAVA,
                ),
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        self.processes.append(process)
        return log

    def run(self, *command: str | Path) -> subprocess.Popen[str]:
        """Start a Python program with the options for the master and the executors."""
        options = ["--master", self.master, "--conf", f"spark.executor.extraJavaOptions={JAVA}"]
        return subprocess.Popen(
            [sys.executable, *map(str, command), *options],
            env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def executors(self) -> dict[int, set[int]]:
        """The executors, each with its child processes."""
        workers, parent_by_pid = {process.pid for process in self.processes[1:]}, parents()
        children_by_pid: dict[int, set[int]] = {}
        for process in parent_by_pid:
            ancestors = [process]
            while ancestors[-1] in parent_by_pid and parent_by_pid[ancestors[-1]] not in workers:
                ancestors.append(parent_by_pid[ancestors[-1]])
            if ancestors[-1] in parent_by_pid:
                children_by_pid.setdefault(ancestors[-1], set()).update(ancestors[:-1])
        return {
            pid: children for pid, children in children_by_pid.items() if EXECUTOR in _command(pid)
        }

    def kill_executor_that_writes(self, suffix: str) -> None:
        """Kill an executor and its Python processes, as if its machine failed, while it has a file
        with a suffix open."""

        def stop_writing_executor() -> tuple[int, set[int]] | None:
            for executor, children in self.executors().items():
                for process in children:
                    if has_open(process, suffix):
                        os.kill(process, signal.SIGSTOP)
                        if has_open(process, suffix):
                            return executor, children
                        os.kill(process, signal.SIGCONT)
            return None

        executor, children = until("no executor writes", stop_writing_executor)
        for process in (executor, *children):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _command(process: int) -> bytes:
    try:
        return (PROCESSES / str(process) / "cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def cluster(directory: Path, workers: int) -> Iterator[Cluster]:
    """A cluster whose workers have one core each."""
    started = Cluster(directory)
    try:
        log = started.start("master.Master", "--port", "0")
        master_url = re.compile(r"Starting Spark master at (spark://\S+)")
        started.master = until("no master", lambda: master_url.search(log.read_text()))[1]
        for worker_index in range(workers):
            work_directory = str(directory / f"work-{worker_index}")
            started.start(
                "worker.Worker",
                *("--cores", "1", "--memory", "1g", "--work-dir", work_directory, started.master),
            )
        until("workers are missing", lambda: log.read_text().count("Registering worker") == workers)
        yield started
    finally:
        for process in reversed(started.processes):
            process.terminate()
        for process in started.processes:
            process.wait(timeout=MAX_SECONDS)
