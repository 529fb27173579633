"""Servers that speak Azure's and Google's protocols: Azurite of npm, fake-gcs-server of Go.

They are installed where Kafka's jars are kept.
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
# Azurite's own, which is on its page.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
TOP = "copies"  # a container, or a bucket


@dataclass
class CloudServer:
    """A server with copies of directories."""

    scheme: str
    env: dict[str, Any]
    """What kfmt finds it by."""
    log: Path
    files: Any
    """The file system of pyarrow."""

    @property
    def url(self) -> str:
        """The container, or the bucket."""
        return f"{self.scheme}://{TOP}"

    def put(self, folder: Path) -> str:
        """Upload a directory; its URL."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                name = f"{TOP}/{folder.name}/{file.relative_to(folder)}"
                with self.files.open_output_stream(name, compression=None) as out:
                    out.write(file.read_bytes())
        return f"{self.url}/{folder.name}"

    def asked(self) -> Counter[str]:
        """The requests for single objects so far."""
        lines = self.log.read_text().replace("%2F", "/")
        found = re.findall(rf'"(\w+ [^ ]*/{TOP}/(?:o/)?[^ ?]+[^ ]*) HTTP', lines.replace("\\", ""))
        return Counter(request for request in found if "comp=list" not in request)


@contextmanager
def _running(command: list[str], log: Path, port: int) -> Iterator[None]:
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process,
    ):

        def is_there() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return answers(port)

        try:
            until(is_there, lambda: log.read_text()[-3000:])
            yield
        finally:
            process.kill()


@contextmanager
def azurite(top: Path) -> Iterator[CloudServer]:
    """Azure's own emulator, with an empty container."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, which brings Azurite")
    home, port = kept_at(AZURITE), free_ports(1)[0]
    program = home / "node_modules/.bin/azurite-blob"
    if not program.exists():
        command = ["npm", "install", "--silent", "--prefix", str(home), AZURITE]
        subprocess.run(command, check=True, stdout=sys.stderr)
    from pyarrow import fs

    address = f"127.0.0.1:{port}"
    options = ("--skipApiVersionCheck", "--disableTelemetry", "--location", str(top / "blobs"))
    command = [str(program), *options, "--blobPort", str(port)]
    with _running(command, top / "azurite.log", port):
        files = fs.AzureFileSystem(
            account_name=ACCOUNT,
            account_key=KEY,
            blob_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_authority=address,
            dfs_storage_scheme="http",
        )
        files.create_dir(TOP)
        connection = (
            f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=http://{address}/{ACCOUNT}"
        )
        env = {"AZURE_STORAGE_CONNECTION_STRING": connection}
        yield CloudServer("abfs", env, top / "azurite.log", files)


@contextmanager
def fake_gcs(top: Path) -> Iterator[CloudServer]:
    """A server that speaks Google's protocol, with an empty bucket."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed, which builds fake-gcs-server")
    home, port = kept_at("fake-gcs-server"), free_ports(1)[0]
    program = home / "fake-gcs-server"
    if not program.exists():
        env = {**os.environ, "GOBIN": str(home), "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "install", FAKE_GCS], check=True, env=env, stdout=sys.stderr)
    from pyarrow import fs

    address = f"127.0.0.1:{port}"
    (top / "objects" / TOP).mkdir(parents=True)
    (top / "objects" / TOP / "first").touch()
    host = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", address)
    command = [str(program), *host, "-backend", "memory", "-data", str(top / "objects")]
    with _running(command, top / "gcs.log", port):
        files = fs.GcsFileSystem(anonymous=True, endpoint_override=address, scheme="http")
        env = {"STORAGE_EMULATOR_HOST": f"http://{address}"}
        yield CloudServer("gs", env, top / "gcs.log", files)
