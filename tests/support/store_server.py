"""A server that speaks S3, for tests of this process and of the commands that it runs."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.core.file_systems import file_system_at
from tests.support.samples import ORDERS


@dataclass
class Bucket:
    """A bucket with the samples' orders-0 in it, and the requests that its server gets."""

    url: str
    requests: list[str]

    def file(self, name: str) -> str:
        return f"{self.url}/{name}"

    def put(self, folder: Path, at: str) -> str:
        """Upload a directory; its URL."""
        system, below = file_system_at(f"{self.url}/{at}")
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                name = f"{below}/{file.relative_to(folder)}"
                with system.open_output_stream(name, compression=None) as out:
                    out.write(file.read_bytes())
        return f"{self.url}/{at}"

    def asked(self, pattern: str) -> list[str]:
        return [request for request in self.requests if re.search(pattern, request)]


def server_named() -> dict[str, Any]:
    """The variables by which a command finds the server."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


class _Requests(logging.Handler):
    def __init__(self, kept: list[str]) -> None:
        super().__init__()
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r'(?:"|\x1b\[1m)([A-Z]+ \S+)', record.getMessage())
        if found is not None:
            self._kept.append(found[1])


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A server's address, in the environment as users have it."""
    servers = pytest.importorskip("moto.server")
    running = servers.ThreadedMotoServer(port=0, verbose=True)
    running.start()
    host, port = running.get_host_and_port()
    named = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in named}
    os.environ |= named
    yield named["AWS_ENDPOINT_URL"]
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    running.stop()


def new_bucket(folder: Path) -> Bucket:
    """An empty bucket, named as a directory of the tests is."""
    fs = pytest.importorskip("pyarrow.fs")
    name = re.sub("[^a-z0-9]", "-", folder.name)[:60].strip("-")
    system, _ = fs.FileSystem.from_uri(f"s3://{name}/?allow_bucket_creation=true")
    system.create_dir(name)
    return Bucket(f"s3://{name}", [])


@pytest.fixture
def bucket(server: str, tmp_path: Path) -> Iterator[Bucket]:
    """A bucket of a test's own."""
    del server
    made = new_bucket(tmp_path)
    made.put(ORDERS.parent, "data/orders-0")
    handler, logger = _Requests(made.requests), logging.getLogger("werkzeug")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield made
    logger.removeHandler(handler)
