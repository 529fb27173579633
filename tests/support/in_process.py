"""Runs of kfmt in the process of the tests, each as if the process were new.

Streams, arguments, directory, environment and signal handlers are those of the run and are put back
after it; what kfmt remembers of paths is forgotten. What a run does to a process for good, or what
only a process shows (signals, pipes, limits, other processes), takes `apart=True`.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import gc
import os
import signal
import sys
import tempfile  # which remembers TMPDIR
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from kfmt_cli.commands import registry_schemas, settings_resolver
from kfmt_cli.commands.retention import remote_end
from kfmt_cli.core import credentials, file_systems, small_objects
from kfmt_cli.disk import file_names, mounts
from kfmt_cli.execution import bounds
from kfmt_cli.render.sinks import repository
from tests.support.warm import INTERPRETERS_OWN

PIPE_HOLDS = 1 << 16  # bytes that are in a pipe before anybody reads
# By what is at a path, which another run may find changed.
_KNOWN_OF_PATHS: tuple[Callable[[], object], ...] = (
    mounts.MOUNTS.clear,
    credentials.CREDENTIALS.by_location.clear,
    *(
        known.cache_clear
        for known in (
            file_names._real_directory,
            file_names.parse_topic_partition,
            file_names.parse_broker_topic_partition,
        )
    ),
    repository.repository_root.cache_clear,
    registry_schemas._replay_registry.cache_clear,
    settings_resolver._load_metadata_configs.cache_clear,
    remote_end._read_remote_ends.cache_clear,
    bounds._read_index_entries.cache_clear,
    *(
        known.cache_clear
        for known in (small_objects._object_store_client, file_systems._open_file_system)
    ),
)


def takes_processes(arguments: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> bool:
    """Whether a run needs a process of its own, by what it is asked."""
    jobs = [arguments[i + 1 : i + 2] for i, text in enumerate(arguments) if text == "--jobs"]
    return (
        threading.current_thread() is not threading.main_thread()
        or len(stdin) > PIPE_HOLDS
        or any(count != ["1"] for count in jobs)
        or arguments[:1] in (["pipeline"], ["browse"], ["export"])
        or any(name.startswith(INTERPRETERS_OWN) for name in env)
    )


def run(
    arguments: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Run `kfmt ARGUMENTS`; its exit code, output and error. Raises what kfmt would die of."""
    from kfmt_cli import __main__ as program

    ends: list[Callable[[], object]] = []
    register = atexit.register

    def at_end(function: Callable[..., object], *args: Any, **kwargs: Any) -> object:
        # A library's, as pyarrow's own for S3.
        if not (function.__module__ or "").startswith("kfmt_cli."):
            return register(function, *args, **kwargs)
        ends.append(lambda: function(*args, **kwargs))
        return function

    with ExitStack() as held:
        out, err = (held.enter_context(tempfile.TemporaryFile(buffering=0)) for _ in range(2))
        held.enter_context(_streams(stdin, out.fileno(), err.fileno()))
        held.enter_context(_place(cwd, env))
        held.enter_context(_signals())
        held.enter_context(mock.patch.object(sys, "argv", ["kfmt", *arguments]))
        held.enter_context(mock.patch.object(atexit, "register", at_end))
        held.enter_context(
            mock.patch.object(concurrent.futures, "ProcessPoolExecutor", _needs_a_process)
        )
        try:
            code = program.run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            for function in reversed(ends):
                function()
            for forget in _KNOWN_OF_PATHS:
                forget()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        written = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read())
    return code & 0xFF, written[0], written[1]


def _needs_a_process(*_: object, **__: object) -> NoReturn:
    raise AssertionError("this run starts processes: kfmt(…, apart=True)")


@contextmanager
def _streams(stdin: bytes, out: int, err: int) -> Iterator[None]:
    """Standard streams as an interpreter opens them."""
    read, write = os.pipe()
    os.write(write, stdin)
    os.close(write)
    names = ("stdin", "stdout", "stderr")
    own = {
        "stdin": TextIOWrapper(BufferedReader(FileIO(read, "r")), encoding="utf-8"),
        "stdout": _text(out, "strict"),
        "stderr": _text(err, "backslashreplace", line_buffering=True),
    }
    with ExitStack() as held:
        for name in names:
            held.enter_context(mock.patch.object(sys, name, own[name]))
            held.enter_context(mock.patch.object(sys, f"__{name}__", own[name]))
        try:
            yield
        finally:
            for stream in own.values():
                stream.close()


def _text(fd: int, errors: str, *, line_buffering: bool = False) -> TextIOWrapper:
    raw = BufferedWriter(FileIO(fd, "w", closefd=False))
    return TextIOWrapper(
        raw, encoding="utf-8", errors=errors, newline="\n", line_buffering=line_buffering
    )


@contextmanager
def _place(cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    """The directory and the environment of the run."""
    before = Path.cwd()
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
        os.chdir(before)


@contextmanager
def _signals() -> Iterator[None]:
    """What the run changes of the process."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    often = gc.get_threshold()
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        gc.set_threshold(*often)
