"""Servers that speak Azure's and Google's protocols: Azurite of npm, fake-gcs-server of Go.

They are installed next to Kafka's jars.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_stores import answers, until
from tools.broker import free_ports
from tools.kafka import kept_at

AZURITE = "azurite@3.35.0"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
ACCOUNT = "devstoreaccount1"
# Azurite's documented default key.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "copies"  # a container, or a bucket


@dataclass
class CloudServer:
    """A server with copies of directories."""

    scheme: str
    env: dict[str, Any]
    """The variables by which kfmt finds the server."""
    log: Path
    files: Any
    """pyarrow's file system of the server."""

    @property
    def url(self) -> str:
        """The URL of the container or bucket."""
        return f"{self.scheme}://{CONTAINER}"

    def upload(self, directory: Path) -> str:
        """Upload a directory; return its URL."""
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                name = f"{CONTAINER}/{directory.name}/{file.relative_to(directory)}"
                with self.files.open_output_stream(name, compression=None) as out:
                    out.write(file.read_bytes())
        return f"{self.url}/{directory.name}"

    def object_requests(self) -> Counter[str]:
        """Count the requests for single objects so far."""
        lines = self.log.read_text().replace("%2F", "/")
        requests = re.findall(
            rf'"(\w+ [^ ]*/{CONTAINER}/(?:o/)?[^ ?]+[^ ]*) HTTP', lines.replace("\\", "")
        )
        return Counter(request for request in requests if "comp=list" not in request)


@contextmanager
def _running(command: list[str], log: Path, port: int) -> Iterator[None]:
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process,
    ):

        def is_up() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return answers(port)

        try:
            until(is_up, lambda: log.read_text()[-3000:])
            yield
        finally:
            process.kill()


@contextmanager
def azurite(root: Path) -> Iterator[CloudServer]:
    """Azure's own emulator, with an empty container."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, which brings Azurite")
    install_directory, port = kept_at(AZURITE), free_ports(1)[0]
    program = install_directory / "node_modules/.bin/azurite-blob"
    if not program.exists():
        command = ["npm", "install", "--silent", "--prefix", str(install_directory), AZURITE]
        subprocess.run(command, check=True, stdout=sys.stderr)
    from pyarrow import fs

    address = f"127.0.0.1:{port}"
    options = ("--skipApiVersionCheck", "--disableTelemetry", "--location", str(root / "blobs"))
    command = [str(program), *options, "--blobPort", str(port)]
    with _running(command, root / "azurite.log", port):
        files = fs.AzureFileSystem(
            account_name=ACCOUNT,
            account_key=KEY,
            blob_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_authority=address,
            dfs_storage_scheme="http",
        )
        files.create_dir(CONTAINER)
        connection = (
            f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=http://{address}/{ACCOUNT}"
        )
        env = {"AZURE_STORAGE_CONNECTION_STRING": connection}
        yield CloudServer("abfs", env, root / "azurite.log", files)


@contextmanager
def fake_gcs(root: Path) -> Iterator[CloudServer]:
    """A server that speaks Google's protocol, with an empty bucket."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed, which builds fake-gcs-server")
    install_directory, port = kept_at("fake-gcs-server"), free_ports(1)[0]
    program = install_directory / "fake-gcs-server"
    if not program.exists():
        env = {**os.environ, "GOBIN": str(install_directory), "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "install", FAKE_GCS], check=True, env=env, stdout=sys.stderr)
    from pyarrow import fs

    address = f"127.0.0.1:{port}"
    (root / "objects" / CONTAINER).mkdir(parents=True)
    (root / "objects" / CONTAINER / "first").touch()
    host = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", address)
    command = [str(program), *host, "-backend", "memory", "-data", str(root / "objects")]
    with _running(command, root / "gcs.log", port):
        files = fs.GcsFileSystem(anonymous=True, endpoint_override=address, scheme="http")
        env = {"STORAGE_EMULATOR_HOST": f"http://{address}"}
        yield CloudServer("gs", env, root / "gcs.log", files)
