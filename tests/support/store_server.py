"""A server that speaks S3, for tests in this process and for the commands that they run."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.core.file_systems import file_system_and_path
from tests.support.samples import ORDERS


@dataclass
class Bucket:
    """A bucket with the samples' orders-0, and the requests to its server."""

    url: str
    requests: list[str]

    def file(self, name: str) -> str:
        return f"{self.url}/{name}"

    def upload(self, directory: Path, path: str) -> str:
        """Upload a directory; return its URL."""
        system, store_path = file_system_and_path(f"{self.url}/{path}")
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                name = f"{store_path}/{file.relative_to(directory)}"
                with system.open_output_stream(name, compression=None) as out:
                    out.write(file.read_bytes())
        return f"{self.url}/{path}"

    def requests_matching(self, pattern: str) -> list[str]:
        return [request for request in self.requests if re.search(pattern, request)]


def server_environment() -> dict[str, Any]:
    """The variables by which a command finds the server."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


class RequestHandler(logging.Handler):
    def __init__(self, requests: list[str]) -> None:
        super().__init__()
        self._requests = requests

    def emit(self, record: logging.LogRecord) -> None:
        match = re.search(r'(?:"|\x1b\[1m)([A-Z]+ \S+)', record.getMessage())
        if match is not None:
            self._requests.append(match[1])


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A server's address; the environment has it as a user's has."""
    moto_server = pytest.importorskip("moto.server")
    moto = moto_server.ThreadedMotoServer(port=0, verbose=True)
    moto.start()
    host, port = moto.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    previous = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    yield variables["AWS_ENDPOINT_URL"]
    for name, value in previous.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    moto.stop()


def new_bucket(directory: Path) -> Bucket:
    """An empty bucket, named after a directory of the tests."""
    fs = pytest.importorskip("pyarrow.fs")
    name = re.sub("[^a-z0-9]", "-", directory.name)[:60].strip("-")
    system, _ = fs.FileSystem.from_uri(f"s3://{name}/?allow_bucket_creation=true")
    system.create_dir(name)
    return Bucket(f"s3://{name}", [])


@pytest.fixture
def bucket(server: str, tmp_path: Path) -> Iterator[Bucket]:
    """A bucket for one test."""
    del server
    created = new_bucket(tmp_path)
    created.upload(ORDERS.parent, "data/orders-0")
    handler, logger = RequestHandler(created.requests), logging.getLogger("werkzeug")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield created
    logger.removeHandler(handler)
