"""A process that has imported kfmt already and forks for each run of it.

A fresh interpreter takes longer to import NumPy, click and kfmt than most commands take to run.
Here each run is still a process of its own, with its own streams, environment, directory, signals
and exit; only the modules are already imported. `tests/support/warm.py` is the other side.

    python tests/support/warm_server.py FD        FD: the socket for requests of runs

A message on that socket is one byte with four descriptors: a socket for this run, standard input,
output and error. On the run's socket comes a JSON object in one line with `argv`, `cwd` and `env`;
back go two lines: the process id, and, when it has ended, its exit status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

PACKAGES = ("click", "lz4.frame", "msgspec", "numpy", "rich.console", "snappy", "zstandard")
# They start threads when they are imported, and a process with threads must not fork.
STARTING_THREADS = ("pyarrow", "pyspark", "obstore", "fsspec", "textual", "duckdb")
DESCRIPTORS = 4


def preload() -> None:
    """Import kfmt's modules, except those that start threads: each run imports those itself.

    Raises RuntimeError if there are threads nevertheless.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `kfmt_cli.__main__` sets it
    for name in STARTING_THREADS:
        sys.modules[name] = None  # type: ignore[assignment]
    package = importlib.import_module("kfmt_cli")
    modules = (entry.name for entry in pkgutil.walk_packages(package.__path__, "kfmt_cli."))
    for name in (*PACKAGES, *modules):
        if name != "kfmt_cli.__main__" and not name.startswith("kfmt_cli.spark"):
            with suppress(ImportError):
                importlib.import_module(name)
    for name in STARTING_THREADS:
        del sys.modules[name]
    tasks = Path("/proc/self/task")  # threads of libraries, which Python does not count
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        raise RuntimeError("a process with threads must not fork")


def serve(control: socket.socket) -> dict[str, Any]:
    """Fork for each message; return the request in the process that runs it."""
    while True:
        _, fds, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
        if not fds:  # the tests have ended
            os._exit(0)
        if os.fork() == 0:
            control.close()
            return watch(fds)
        for fd in fds:
            os.close(fd)
        reap()


def reap() -> None:
    """Reap the watchers that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def watch(fds: list[int]) -> dict[str, Any]:
    """Fork again and report the exit status; return the request in the new process."""
    with socket.socket(fileno=fds[0]) as connection:
        with connection.makefile("rb") as lines:
            request: dict[str, Any] = json.loads(lines.readline())
        pid = os.fork()
        if pid == 0:
            for stream_fd, fd in enumerate(fds[1:]):
                os.dup2(fd, stream_fd)
                os.close(fd)
            return request
        for fd in fds[1:]:
            os.close(fd)
        connection.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        with suppress(BrokenPipeError):  # the tests may have been interrupted
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)


def become(request: dict[str, Any]) -> None:
    """Put this process in the state of `python -m kfmt_cli` at its start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = os.getcwd()  # noqa: PTH109
    sys.argv = ["kfmt", *map(os.fsdecode, map(bytes.fromhex, request["argv"]))]
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        text_stream = stream(fd, getattr(sys, f"__{name}__"))
        setattr(sys, name, text_stream)
        setattr(sys, f"__{name}__", text_stream)


def stream(fd: int, previous: TextIOWrapper) -> TextIOWrapper:
    """Open a standard stream as the interpreter does, with the encoding of the one before."""
    raw = FileIO(fd, "w" if fd else "r", closefd=False)
    unbuffered = isinstance(previous.buffer, FileIO)  # as PYTHONUNBUFFERED makes it
    buffered: Any = raw
    if not unbuffered:
        buffered = BufferedWriter(raw) if fd else BufferedReader(raw)
    return TextIOWrapper(
        buffered,
        encoding=previous.encoding,
        errors=previous.errors,
        newline="\n" if fd else None,
        line_buffering=raw.isatty() or fd == 2,
        write_through=unbuffered,
    )


def finish(code: int) -> NoReturn:
    """Do what an interpreter does at its end, except the slow teardown of every module."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for text_stream in (sys.stdout, sys.stderr):
        try:
            if text_stream is not None and not text_stream.closed:
                text_stream.flush()
        except OSError as error:
            os.write(2, f"Exception ignored in: {text_stream!r}\n{error!r}\n".encode())
            code = 120
    os._exit(code)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted test run ends it anyway
    with socket.socket(fileno=int(sys.argv[1])) as control:
        preload()
        gc.collect()
        gc.freeze()  # so that no fork copies what is never collected
        request = serve(control)
    become(request)
    try:
        runpy.run_module("kfmt_cli", run_name="__main__", alter_sys=True)
    except SystemExit as exited:
        if exited.code is None or isinstance(exited.code, int):
            finish((exited.code or 0) & 0xFF)
        raise
    finish(0)


if __name__ == "__main__":
    main()
