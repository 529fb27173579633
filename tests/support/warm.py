"""Runs of kfmt in processes of their own that do not import everything again.

A server (`warm_server.py`) has kfmt imported and forks for each run. The interpreter itself reads
some variables when it starts, so there is a server for each set of them: nearly always one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

SERVER = Path(__file__).with_name("warm_server.py")
CLIENT = Path(__file__).with_name("warm_client.py")
INTERPRETER_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_")
TIMEOUT = 300  # seconds


class Running:
    """A started run of kfmt."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._code: int | None = None
        connection.settimeout(TIMEOUT)
        line = self._lines.readline()
        if not line:
            raise ChildProcessError("the server of warm runs has ended; its words are above")
        self.pid = int(line)

    def wait(self, timeout: float = TIMEOUT) -> int:
        """The exit code, negative for a signal's number as in `subprocess`.

        Kills the process and raises TimeoutExpired when the time is up.
        """
        if self._code is None:
            self._connection.settimeout(timeout)
            try:
                self._code = int(self._lines.readline())
            except TimeoutError:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired("kfmt", timeout) from None
            finally:
                self._lines.close()
                self._connection.close()
        return self._code

    def send_signal(self, signal_number: int) -> None:
        """Send a signal to the process if it runs."""
        if self._code is None:
            os.kill(self.pid, signal_number)


class Server:
    """A process that forks for each run."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._control, remote_end = socket.socketpair()
        self._lock = threading.Lock()
        with remote_end:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), str(remote_end.fileno())],
                stdin=subprocess.DEVNULL,
                env=dict(env),
                pass_fds=[remote_end.fileno()],
            )

    def start(
        self, argv: Sequence[bytes], cwd: Path, env: Mapping[str, str], streams: Sequence[int]
    ) -> Running:
        """Run kfmt with these arguments; streams: descriptors of its input, output and error."""
        connection, remote_end = socket.socketpair()
        with remote_end, self._lock:
            socket.send_fds(self._control, [b"r"], [remote_end.fileno(), *streams])
        request = {"argv": [argument.hex() for argument in argv], "cwd": str(cwd), "env": dict(env)}
        connection.sendall(json.dumps(request).encode() + b"\n")
        return Running(connection)

    def command(self) -> tuple[list[str], int]:
        """A command that runs kfmt in a shell, and the descriptor that the shell must inherit."""
        fd = self._control.fileno()
        return [sys.executable, "-I", "-S", str(CLIENT), str(fd)], fd

    def stop(self) -> None:
        """Stop the server."""
        self._control.close()
        self._process.wait(30)


_servers: dict[frozenset[tuple[str, str]], Server] = {}
_lock = threading.Lock()


def server_for(env: Mapping[str, str]) -> Server:
    """The server of an environment."""
    variables = frozenset(item for item in env.items() if item[0].startswith(INTERPRETER_VARIABLES))
    with _lock:
        server = _servers.get(variables)
        if server is None:
            server = _servers[variables] = Server(env)
        return server


def start(
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> Running:
    """Start `kfmt ARGUMENTS` on these streams, which stay open here."""
    streams = [
        stream if isinstance(stream, int) else stream.fileno() for stream in (stdin, stdout, stderr)
    ]
    return server_for(env).start(
        [os.fsencode(argument) for argument in arguments], cwd, env, streams
    )


def run(
    arguments: Sequence[str | Path], stdin: bytes, cwd: Path, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Run `kfmt ARGUMENTS` through pipes; return its exit code, output and error output."""
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = (
        os.pipe() for _ in range(3)
    )
    outputs: dict[int, bytes] = {}

    def read(fd: int) -> None:
        with open(fd, "rb") as pipe:
            outputs[fd] = pipe.read()

    def write() -> None:
        try:
            with open(in_write, "wb") as pipe:  # noqa: PTH123 (a descriptor)
                pipe.write(stdin)
        except BrokenPipeError:
            pass  # it had read enough

    try:
        running = start(
            arguments, cwd=cwd, env=env, stdin=in_read, stdout=out_write, stderr=err_write
        )
    finally:
        for fd in (in_read, out_write, err_write):
            os.close(fd)
    threads = [threading.Thread(target=read, args=(fd,)) for fd in (out_read, err_read)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    try:
        code = running.wait()
    finally:
        for thread in threads:
            thread.join()
    return code, outputs[out_read], outputs[err_read]


def stop() -> None:
    """Stop all servers."""
    with _lock:
        for server in _servers.values():
            server.stop()
        _servers.clear()
