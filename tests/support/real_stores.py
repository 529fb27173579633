"""Servers that others have written, as stores: S3 by s3proxy, WebHDFS by Hadoop.

Need what tools/kafka.py needs; their jars are kept where Kafka's are.
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
PATIENCE = 60  # seconds until a server answers
KEY, SECRET = "a-key", "a-secret"


class RealStore(Protocol):
    """A store with copies of local directories."""

    env: dict[str, Any]
    """What kfmt finds it by."""

    def url(self, folder: Path) -> str:
        """Where the copy of a directory is."""

    def read(self, url: str) -> bytes:
        """The bytes of a file, not read by kfmt."""


@dataclass
class S3Proxy:
    """A server that speaks S3 and keeps objects as files; its buckets outlive its process."""

    top: Path
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
            "jclouds.filesystem.basedir": str(self.top / "buckets"),
        }
        (self.top / "buckets").mkdir()
        self._settings.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    @property
    def _settings(self) -> Path:
        return self.top / "s3proxy.properties"

    def start(self) -> None:
        """Begin to answer; returns when it does."""
        (jar,) = fetched("s3proxy-3.1.0", S3PROXY).glob("*.jar")
        with (self.top / "s3proxy.log").open("ab") as log:
            command = ["java", *SHORT_LIVED, "-jar", str(jar), "--properties", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._answers, lambda: (self.top / "s3proxy.log").read_text()[-3000:])

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.top / "s3proxy.log").read_text()[-3000:]
        return answers(self.port)

    def kill(self) -> None:
        """End at once, in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Meanwhile it takes connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # One of its threads takes the signal; until then the others still answer.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def files(self) -> Any:
        """The store as pyarrow has it."""
        from pyarrow import fs

        name = "AWS_REQUEST_CHECKSUM_CALCULATION"
        with pytest.MonkeyPatch.context() as patch:  # which it looks at when it is made
            patch.setenv(name, self.env[name])
            return fs.S3FileSystem(
                access_key=KEY,
                secret_key=SECRET,
                region="us-east-1",
                endpoint_override=self.env["AWS_ENDPOINT_URL"],
                allow_bucket_creation=True,
            )

    def put(self, folder: Path, bucket: str) -> None:
        """A bucket with a copy of a directory."""
        files = self.files()
        files.create_dir(bucket)
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                name = f"{bucket}/{folder.name}/{file.relative_to(folder)}"
                with files.open_output_stream(name, compression=None) as out:
                    out.write(file.read_bytes())

    def url(self, folder: Path) -> str:
        return f"s3://copies/{folder.name}"

    def read(self, url: str) -> bytes:
        with self.files().open_input_file(url.removeprefix("s3://")) as file:
            data: bytes = file.read()
        return data

    def names(self, folder: str) -> list[str]:
        """The objects below a directory, which need not be there."""
        from pyarrow import fs

        below = fs.FileSelector(folder, recursive=True, allow_not_found=True)
        found = self.files().get_file_info(below)
        return [info.path for info in found if info.type is fs.FileType.File]


@contextmanager
def s3proxy(top: Path) -> Iterator[S3Proxy]:
    """A server with no bucket."""
    store = S3Proxy(top, free_ports(1)[0])
    try:
        store.start()
        yield store
    finally:
        store.kill()


@dataclass
class WebHdfs:
    """HDFS as it is reached by HTTP."""

    port: int
    env: dict[str, Any] = field(default_factory=dict)

    @property
    def top(self) -> str:
        """Its root."""
        return f"webhdfs://127.0.0.1:{self.port}"

    def url(self, folder: Path) -> str:
        return f"{self.top}/{folder.name}"

    def read(self, url: str) -> bytes:
        import fsspec

        files = fsspec.filesystem("webhdfs", host="127.0.0.1", port=self.port)
        data: bytes = files.cat_file(url.removeprefix(self.top))
        return data


@contextmanager
def webhdfs(top: Path, *folders: Path) -> Iterator[WebHdfs]:
    """A cluster with copies of directories, made by Hadoop itself."""
    home = fetched("hadoop-minicluster-3.4.2", HADOOP)
    log = top / "hdfs.log"
    command = [
        *("java", "-Xmx512m", *SHORT_LIVED, "--add-opens=java.base/java.lang=ALL-UNNAMED"),
        *(f"-Dlog4j.configuration=file:{home}/log4j.properties", "-cp", f"{home}/*"),
        *(str(Path(__file__).with_name("Hdfs.java")), str(top / "blocks"), *map(str, folders)),
    ]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, cwd=top, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:

            def port() -> re.Match[str] | None:
                assert process.poll() is None, log.read_text()[-3000:]
                return re.search(r"^port (\d+)$", log.read_text(), re.MULTILINE)

            found = until(port, lambda: log.read_text()[-3000:])
            yield WebHdfs(int(found[1]))
        finally:
            process.kill()
            shutil.rmtree(top / "blocks", ignore_errors=True)


def answers(port: int) -> bool:
    """Whether somebody takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(is_so: Callable[[], Any], words: Callable[[], str]) -> Any:
    """Wait until something is so; what it is. words: what is said if that takes too long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := is_so():
            return found
        time.sleep(0.1)
    raise TimeoutError(words())


class Cutting:
    """The way to a server that ends, for good, after so many bytes have gone to it."""

    def __init__(self, port: int, most: int) -> None:
        self._left = most
        self._to = port
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            goes_there = source.getpeername()[1] != self._to
            while data := source.recv(1 << 16):
                to.sendall(data)
                if goes_there:
                    self._left -= len(data)
                if self._left < 0:
                    self.is_cut = True
                    self.close()
            to.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End every connection, and take no more of them."""
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
