"""Runs of kfmt in the process of the tests, each as if in a new process.

A run has its own streams, arguments, directory, environment and signal handlers, which are restored
after it; kfmt's caches by path are cleared. A run that changes its process permanently, or that
needs one (signals, pipes, limits, other processes), takes `apart=True`.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import gc
import os
import signal
import sys
import tempfile  # which caches TMPDIR
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from kfmt_cli.commands import registry_schemas
from kfmt_cli.core import credentials, file_systems, small_objects
from kfmt_cli.disk import file_names, mounts
from kfmt_cli.render.sinks import repository
from tests.support.warm import INTERPRETER_VARIABLES

PIPE_CAPACITY = 1 << 16  # bytes that are in a pipe before anybody reads
# Caches by path; another run may find other content there.
_CACHES_BY_PATH: tuple[Callable[[], object], ...] = (
    mounts.MOUNTS.clear,
    credentials.CREDENTIALS.credentials_by_host.clear,
    *(
        function.cache_clear
        for function in (
            file_names._real_directory,
            file_names.parse_topic_partition,
            file_names.parse_broker_topic_partition,
        )
    ),
    repository.repository_root.cache_clear,
    registry_schemas._replay_registry.cache_clear,
    *(
        function.cache_clear
        for function in (small_objects._object_store_client, file_systems._open_file_system)
    ),
)


def needs_process(arguments: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> bool:
    """Whether a run needs a process of its own, according to its arguments."""
    job_counts = [
        arguments[i + 1 : i + 2] for i, argument in enumerate(arguments) if argument == "--jobs"
    ]
    return (
        threading.current_thread() is not threading.main_thread()
        or len(stdin) > PIPE_CAPACITY
        or any(count != ["1"] for count in job_counts)
        or arguments[:1] in (["pipeline"], ["browse"], ["export"])
        or any(name.startswith(INTERPRETER_VARIABLES) for name in env)
    )


def run(
    arguments: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Run `kfmt ARGUMENTS`; return its exit code, output and error output.

    Raises the exceptions that kfmt does not handle.
    """
    from kfmt_cli import __main__ as program

    exit_functions: list[Callable[[], object]] = []
    register = atexit.register

    def register_exit(function: Callable[..., object], *args: Any, **kwargs: Any) -> object:
        # A library's function, such as pyarrow's for S3.
        if not (function.__module__ or "").startswith("kfmt_cli."):
            return register(function, *args, **kwargs)
        exit_functions.append(lambda: function(*args, **kwargs))
        return function

    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile(buffering=0)) for _ in range(2))
        stack.enter_context(_streams(stdin, out.fileno(), err.fileno()))
        stack.enter_context(_directory_and_environment(cwd, env))
        stack.enter_context(_signals())
        stack.enter_context(mock.patch.object(sys, "argv", ["kfmt", *arguments]))
        stack.enter_context(mock.patch.object(atexit, "register", register_exit))
        stack.enter_context(
            mock.patch.object(concurrent.futures, "ProcessPoolExecutor", _refuse_processes)
        )
        try:
            code = program.run()
        except SystemExit as exited:
            code = exited.code if isinstance(exited.code, int) else int(exited.code is not None)
        finally:
            for function in reversed(exit_functions):
                function()
            for clear_cache in _CACHES_BY_PATH:
                clear_cache()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        outputs = []
        for file in (out, err):
            file.seek(0)
            outputs.append(file.read())
    return code & 0xFF, outputs[0], outputs[1]


def _refuse_processes(*_: object, **__: object) -> NoReturn:
    raise AssertionError("this run starts processes: kfmt(…, apart=True)")


@contextmanager
def _streams(stdin: bytes, out: int, err: int) -> Iterator[None]:
    """Open standard streams as an interpreter does."""
    read, write = os.pipe()
    os.write(write, stdin)
    os.close(write)
    names = ("stdin", "stdout", "stderr")
    stream_by_name = {
        "stdin": TextIOWrapper(BufferedReader(FileIO(read, "r")), encoding="utf-8"),
        "stdout": _text(out, "strict"),
        "stderr": _text(err, "backslashreplace", line_buffering=True),
    }
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(sys, name, stream_by_name[name]))
            stack.enter_context(mock.patch.object(sys, f"__{name}__", stream_by_name[name]))
        try:
            yield
        finally:
            for stream in stream_by_name.values():
                stream.close()


def _text(fd: int, errors: str, *, line_buffering: bool = False) -> TextIOWrapper:
    raw = BufferedWriter(FileIO(fd, "w", closefd=False))
    return TextIOWrapper(
        raw, encoding="utf-8", errors=errors, newline="\n", line_buffering=line_buffering
    )


@contextmanager
def _directory_and_environment(cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Set the directory and the environment of the run."""
    previous_directory = Path.cwd()
    os.chdir(cwd)
    try:
        with mock.patch.dict(os.environ), mock.patch.object(tempfile, "tempdir", None):
            for name in os.environ.keys() - env.keys():
                del os.environ[name]
            for name, value in env.items():
                if os.environ.get(name) != value:
                    os.environ[name] = value
            yield
    finally:
        os.chdir(previous_directory)


@contextmanager
def _signals() -> Iterator[None]:
    """Restore the signal handlers and the threshold of garbage collection."""
    signals = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    handlers = [signal.getsignal(signal_number) for signal_number in signals]
    gc_threshold = gc.get_threshold()
    try:
        yield
    finally:
        for signal_number, handler in zip(signals, handlers, strict=True):
            signal.signal(signal_number, handler)
        gc.set_threshold(*gc_threshold)
