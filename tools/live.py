"""A real broker that runs on a log directory, and Kafka's own commands for it.

The broker is killed at the end, so the directory stays as it was after the last command. Requires
what tools/kafka.py requires.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.broker import SERVER, BrokerError, free_ports
from tools.kafka import command_class, java

TIMEOUT = 90  # seconds until a broker answers
NODE = 1


@dataclass(frozen=True)
class Live:
    """A running broker."""

    version: str
    address: str
    """Host and port."""
    scratch: Path
    """A directory for files."""
    kill: Callable[[], None]
    """Kills the broker."""

    def command(self, name: str, *arguments: str, bootstrap: bool = True) -> str:
        """The output of one of Kafka's commands; raises BrokerError if it fails."""
        result = self.ran(name, *arguments, bootstrap=bootstrap)
        if result.returncode:
            raise BrokerError(f"{name} {arguments}: {result.stderr[-3000:]}{result.stdout[-1000:]}")
        return result.stdout

    def ran(
        self, name: str, *arguments: str, bootstrap: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """The result of one of Kafka's commands. name: its class; bootstrap: pass the address."""
        return subprocess.run(
            self._command(name, arguments, bootstrap),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @contextmanager
    def running(
        self, name: str, *arguments: str, bootstrap: bool = True
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start one of Kafka's commands, and kill it at the end."""
        log = self.scratch / f"{name}-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            command = self._command(name, arguments, bootstrap)
            process = subprocess.Popen(command, stdout=output, stderr=output)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _command(self, name: str, arguments: tuple[str, ...], bootstrap: bool) -> list[str]:
        server_options = ("--bootstrap-server", self.address) if bootstrap else ()
        return java(self.version, command_class(self.version, name), *server_options, *arguments)


@contextmanager
def live(
    version: str, data: Path, scratch: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Live]:
    """Run a broker on a log directory with meta.properties; raises BrokerError."""
    broker, controller = free_ports(2)
    config = {
        **SERVER,
        "node.id": str(NODE),
        "log.dirs": str(data),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"{NODE}@127.0.0.1:{controller}",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **(settings or {}),
    }
    file = scratch / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    log = scratch / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            java(version, "kafka.Kafka", str(file), options=("-XX:TieredStopAtLevel=1",)),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        try:
            _wait_until_up(process, broker, log)
            yield Live(version, f"127.0.0.1:{broker}", scratch, kill)
        finally:
            kill()


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the broker accepts connections."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise BrokerError(f"exit status {process.returncode}\n{log.read_text()[-3000:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise BrokerError(f"no answer after {TIMEOUT} s\n{log.read_text()[-3000:]}")


def format_storage(version: str, data: Path, scratch: Path) -> None:
    """Create a log directory of a new cluster of one node."""
    config = scratch / "format.properties"
    config.write_text(
        f"process.roles=broker,controller\nnode.id={NODE}\nlog.dirs={data}\n"
        f"controller.quorum.voters={NODE}@127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    cluster = "4L6g3nShT-eMCtK--X86sw"
    arguments = ("format", "--config", str(config), "--cluster-id", cluster)
    result = subprocess.run(
        java(version, "kafka.tools.StorageTool", *arguments),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise BrokerError(result.stderr + result.stdout)
