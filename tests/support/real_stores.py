"""Stores on real servers: S3 by s3proxy, WebHDFS by Hadoop.

They need what tools/kafka.py needs; their jars are installed next to Kafka's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tools.broker import free_ports
from tools.kafka import SHORT_LIVED, fetched

S3PROXY = """
<dependency><groupId>org.gaul</groupId><artifactId>s3proxy</artifactId><version>3.1.0</version>
<classifier>jar-with-dependencies</classifier><exclusions><exclusion>
<groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""
HADOOP = """
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-minicluster</artifactId>
<version>3.4.2</version></dependency>
"""
MAX_START_SECONDS = 60  # seconds until a server answers
KEY, SECRET = "a-key", "a-secret"


class RealStore(Protocol):
    """A store with copies of local directories."""

    env: dict[str, Any]
    """The variables by which kfmt finds the store."""

    def url(self, directory: Path) -> str:
        """The URL of the copy of a directory."""

    def read(self, url: str) -> bytes:
        """The bytes of a file, read without kfmt."""


@dataclass
class S3Proxy:
    """A server that speaks S3 and stores objects as files; its buckets outlive its process."""

    root: Path
    port: int
    env: dict[str, Any] = field(init=False)
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "WHEN_REQUIRED",
        }
        settings = {
            "s3proxy.endpoint": self.env["AWS_ENDPOINT_URL"],
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": KEY,
            "s3proxy.credential": SECRET,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.root / "buckets"),
        }
        (self.root / "buckets").mkdir()
        self._settings.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    @property
    def _settings(self) -> Path:
        return self.root / "s3proxy.properties"

    def start(self) -> None:
        """Start the server; return when it answers."""
        (jar,) = fetched("s3proxy-3.1.0", S3PROXY).glob("*.jar")
        with (self.root / "s3proxy.log").open("ab") as log:
            command = ["java", *SHORT_LIVED, "-jar", str(jar), "--properties", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._answers, lambda: (self.root / "s3proxy.log").read_text()[-3000:])

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.root / "s3proxy.log").read_text()[-3000:]
        return answers(self.port)

    def kill(self) -> None:
        """Kill the server at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Stop the server for a while: it accepts connections and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # One of its threads receives the signal; until then the others still answer.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def files(self) -> Any:
        """pyarrow's file system of the store."""
        from pyarrow import fs

        name = "AWS_REQUEST_CHECKSUM_CALCULATION"
        with pytest.MonkeyPatch.context() as patch:  # which the constructor reads
            patch.setenv(name, self.env[name])
            return fs.S3FileSystem(
                access_key=KEY,
                secret_key=SECRET,
                region="us-east-1",
                endpoint_override=self.env["AWS_ENDPOINT_URL"],
                allow_bucket_creation=True,
            )

    def upload(self, directory: Path, bucket: str) -> None:
        """Create a bucket with a copy of a directory."""
        files = self.files()
        files.create_dir(bucket)
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                name = f"{bucket}/{directory.name}/{file.relative_to(directory)}"
                with files.open_output_stream(name, compression=None) as out:
                    out.write(file.read_bytes())

    def url(self, directory: Path) -> str:
        return f"s3://copies/{directory.name}"

    def read(self, url: str) -> bytes:
        with self.files().open_input_file(url.removeprefix("s3://")) as file:
            data: bytes = file.read()
        return data

    def names(self, directory: str) -> list[str]:
        """The objects in a directory, which need not exist."""
        from pyarrow import fs

        selector = fs.FileSelector(directory, recursive=True, allow_not_found=True)
        entries = self.files().get_file_info(selector)
        return [info.path for info in entries if info.type is fs.FileType.File]


@contextmanager
def s3proxy(root: Path) -> Iterator[S3Proxy]:
    """A server without buckets."""
    store = S3Proxy(root, free_ports(1)[0])
    try:
        store.start()
        yield store
    finally:
        store.kill()


@dataclass
class WebHdfs:
    """HDFS, accessed by HTTP."""

    port: int
    env: dict[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """Its root."""
        return f"webhdfs://127.0.0.1:{self.port}"

    def url(self, directory: Path) -> str:
        return f"{self.root}/{directory.name}"

    def read(self, url: str) -> bytes:
        import fsspec

        files = fsspec.filesystem("webhdfs", host="127.0.0.1", port=self.port)
        data: bytes = files.cat_file(url.removeprefix(self.root))
        return data


@contextmanager
def webhdfs(root: Path, *directories: Path) -> Iterator[WebHdfs]:
    """A cluster with copies of directories, written by Hadoop itself."""
    jar_directory = fetched("hadoop-minicluster-3.4.2", HADOOP)
    log = root / "hdfs.log"
    command = [
        *("java", "-Xmx512m", *SHORT_LIVED, "--add-opens=java.base/java.lang=ALL-UNNAMED"),
        *(
            f"-Dlog4j.configuration=file:{jar_directory}/log4j.properties",
            "-cp",
            f"{jar_directory}/*",
        ),
        *(str(Path(__file__).with_name("Hdfs.java")), str(root / "blocks"), *map(str, directories)),
    ]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:

            def port() -> re.Match[str] | None:
                assert process.poll() is None, log.read_text()[-3000:]
                return re.search(r"^port (\d+)$", log.read_text(), re.MULTILINE)

            match = until(port, lambda: log.read_text()[-3000:])
            yield WebHdfs(int(match[1]))
        finally:
            process.kill()
            shutil.rmtree(root / "blocks", ignore_errors=True)


def answers(port: int) -> bool:
    """Whether a server accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(condition: Callable[[], Any], message: Callable[[], str]) -> Any:
    """Wait until a condition is true; return its value. message: of the error after too long."""
    deadline = time.monotonic() + MAX_START_SECONDS
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.1)
    raise TimeoutError(message())


class CuttingProxy:
    """A proxy of a server that closes for good after it has sent so many bytes to the server."""

    def __init__(self, port: int, max_bytes: int) -> None:
        self._n_bytes_left = max_bytes
        self._server_port = port
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets += [client, server]
                for sockets in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=sockets, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            is_request = source.getpeername()[1] != self._server_port
            while data := source.recv(1 << 16):
                target.sendall(data)
                if is_request:
                    self._n_bytes_left -= len(data)
                if self._n_bytes_left < 0:
                    self.is_cut = True
                    self.close()
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close every connection, and accept no more."""
        for connection in (self._listener, *self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
