"""A real cluster of Spark on this machine: a master and workers, each a process of its own."""

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

PATIENCE = 180  # seconds
JAVA = " ".join(SHORT_LIVED)
EXECUTOR = b"CoarseGrainedExecutorBackend"
PROCESSES = Path("/proc")


def until(what: str, question: Callable[[], Any]) -> Any:
    """What a question gives once it gives something; fails when that takes too long."""
    end = time.monotonic() + PATIENCE
    while not (found := question()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return found


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for about in PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            found[int(about.parent.name)] = int(about.read_text().rpartition(")")[2].split()[1])
    return found


def has_open(process: int, suffix: str) -> bool:
    """Whether a process has a file open whose name ends like that."""
    with suppress(OSError):
        return any(
            os.readlink(handle).endswith(suffix)  # noqa: PTH115 (names of sockets are no paths)
            for handle in (PROCESSES / str(process) / "fd").iterdir()
        )
    return False


@dataclass
class Cluster:
    """A master and its workers."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    master: str = ""

    def start(self, what: str, *arguments: str) -> Path:
        """Start one of them; its log."""
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.folder / f"{len(self.processes)}.log"
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [home / "bin/spark-class", f"org.apache.spark.deploy.{what}", *place, *arguments],
                env=environment(
                    SPARK_HOME=str(home), SPARK_LOCAL_IP="127.0.0.1", SPARK_DAEMON_JAVA_OPTS=JAVA
                ),
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        self.processes.append(process)
        return log

    def run(self, *command: str | Path) -> subprocess.Popen[str]:
        """Start a program of Python that is given the master and what executors need."""
        options = ["--master", self.master, "--conf", f"spark.executor.extraJavaOptions={JAVA}"]
        return subprocess.Popen(
            [sys.executable, *map(str, command), *options],
            env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def executors(self) -> dict[int, set[int]]:
        """The processes that the workers have started for applications, each with its own."""
        workers, known = {process.pid for process in self.processes[1:]}, parents()
        found: dict[int, set[int]] = {}
        for process in known:
            line = [process]
            while line[-1] in known and known[line[-1]] not in workers:
                line.append(known[line[-1]])
            if line[-1] in known:
                found.setdefault(line[-1], set()).update(line[:-1])
        return {pid: below for pid, below in found.items() if EXECUTOR in _command(pid)}

    def kill_executor_that_writes(self, suffix: str) -> None:
        """Kill an executor and its Python, as when its machine goes down, while a file is open in
        it whose name ends like that."""

        def caught() -> tuple[int, set[int]] | None:
            for executor, below in self.executors().items():
                for process in below:
                    if has_open(process, suffix):
                        os.kill(process, signal.SIGSTOP)
                        if has_open(process, suffix):
                            return executor, below
                        os.kill(process, signal.SIGCONT)
            return None

        executor, below = until("no executor writes", caught)
        for process in (executor, *below):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _command(process: int) -> bytes:
    try:
        return (PROCESSES / str(process) / "cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster whose workers have one core each."""
    made = Cluster(folder)
    try:
        log = made.start("master.Master", "--port", "0")
        at = re.compile(r"Starting Spark master at (spark://\S+)")
        made.master = until("no master", lambda: at.search(log.read_text()))[1]
        for number in range(workers):
            place = str(folder / f"work-{number}")
            made.start(
                "worker.Worker",
                *("--cores", "1", "--memory", "1g", "--work-dir", place, made.master),
            )
        until("workers are missing", lambda: log.read_text().count("Registering worker") == workers)
        yield made
    finally:
        for process in reversed(made.processes):
            process.terminate()
        for process in made.processes:
            process.wait(timeout=PATIENCE)
