"""Files that a user may not open, opened by Kafka's classes as that user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.samples import TXN, kfmt
from tools import kafka

OWNER = 23456
pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
    ),
]
SOURCE = Path(__file__).with_name("OpenedFiles.java")


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(params=[kafka.VERSION, kafka.NEWEST])
def classes(request: pytest.FixtureRequest, public: Path) -> list[str]:
    """The class path of a release, where every user may read it."""
    version: str = request.param
    jars = public / "jars"
    jars.mkdir()
    for jar in kafka.jars(version).glob("*.jar"):
        shutil.copy(jar, jars)
    compiled = public / "classes"
    shutil.copytree(kafka.compiled(version, SOURCE), compiled)
    subprocess.run(["chmod", "-R", "a+rX", public], check=True)
    return ["-cp", f"{compiled}:{jars}/*"]


def refused(classes: list[str], partition: Path) -> set[str]:
    """The files of a partition that Kafka's classes cannot open as OWNER."""
    identity = [f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
    command = ["setpriv", *identity, "java", *kafka.SHORT_LIVED, *classes, "OpenedFiles"]
    output = subprocess.run([*command, partition], check=True, capture_output=True, text=True)
    names = (line.split(" ", 1) for line in output.stdout.splitlines())
    return {name for name, outcome in names if outcome != "opened"}


def partition_of(directory: Path) -> Path:
    partition = directory / "txn-0"
    shutil.copytree(TXN.parent, partition)
    for path in (partition, *partition.iterdir()):
        os.chown(path, OWNER, OWNER)
    return partition


def test_logs_and_indexes_are_opened_for_writing(public: Path, classes: list[str]) -> None:
    partition = partition_of(public)
    assert refused(classes, partition) == set()
    names = {path.name for path in partition.iterdir()}
    written = {name for name in names if name.endswith((".log", "index"))}
    read = {name for name in names if name.endswith(".snapshot")}
    for mode, expected in ((0o644, written), (0o600, written | read)):
        for path in partition.iterdir():
            os.chown(path, 0, 0)
            path.chmod(mode)
        assert refused(classes, partition) == expected


@pytest.mark.parametrize("command", ["rebuild-index --in-place", "salvage"])
def test_what_kfmt_writes_as_root_is_open_to_the_owner(
    command: str, public: Path, classes: list[str]
) -> None:
    partition = partition_of(public)
    written = partition
    if command == "salvage":
        written = public / "new/txn-0"
        assert kfmt("salvage", partition, written).code == 0
    else:
        for index in partition.glob("*index"):
            index.unlink()
        assert kfmt(*command.split(), "--all-files", partition).code == 0
    assert len(list(written.glob("*index"))) == 9
    assert refused(classes, written) == set()
