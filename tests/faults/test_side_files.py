"""What is no regular file in the place of a side file: no command waits, fails or follows it."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kfmt_cli.core.regular_files import MAX_SIDE_FILE_BYTES
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, Done, kfmt

pytestmark = pytest.mark.timeout(120)  # none waits
SIDE_FILES = [
    *(f"{0:020}{suffix}" for suffix in (".index", ".timeindex", ".txnindex")),
    *(f"{240:020}.snapshot", "leader-epoch-checkpoint", "partition.metadata"),
]
LOG_DIRECTORY_FILES = [
    *("meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"),
    *("replication-offset-checkpoint", ".lock", ".kafka_cleanshutdown", "bootstrap.checkpoint"),
]


def create_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        directory = os.open(path.parent, os.O_RDONLY)  # a path may be too long for a socket
        listener.bind(f"/proc/self/fd/{directory}/{path.name}")
        os.close(directory)


def create_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 43)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": create_socket,
    "a directory": os.mkdir,
    "a huge file": create_huge,
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to the memory of a process": lambda path: path.symlink_to("/proc/self/mem"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to its directory": lambda path: path.symlink_to("."),
}


def replaced(directory: Path, names: list[str], kind: str) -> None:
    """Put something of this kind in the place of files."""
    for name in names:
        path = directory / name
        path.unlink(missing_ok=True)
        KINDS[kind](path)


def run(*arguments: str | Path) -> Done:
    result = kfmt(*arguments, apart=arguments[0] == "check")
    assert result.code in {0, 1, 2, 3}, result.err
    assert "Traceback" not in result.err
    return result


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    shutil.copytree(ORDERS.parent, tmp_path / "disk/orders-0")
    return tmp_path / "disk"


@pytest.mark.parametrize("kind", KINDS)
def test_next_to_a_log(kind: str, disk: Path) -> None:
    replaced(disk / "orders-0", SIDE_FILES, kind)
    names = LOG_DIRECTORY_FILES if kind != "a huge file" else LOG_DIRECTORY_FILES[:-1]  # a log
    replaced(disk, names, kind)
    for command in ("check", "retention"):
        run(*command.split(), disk)
    result = run("salvage", disk, disk.parent / "salvaged")
    assert (disk.parent / "salvaged/orders-0" / ORDERS.name).read_bytes() == ORDERS.read_bytes()
    assert "salvaged 75 of 75 batches" in result.out
    before = {path: path.lstat().st_mode for path in disk.rglob("*") if path.is_symlink()}
    run("rebuild-index", "--in-place", "--all-files", "--force", disk / "orders-0")
    index = disk / "orders-0" / SIDE_FILES[0]
    if kind in {"a directory", "a link to its directory"}:
        assert index.is_dir()
    else:
        assert stat.S_ISREG(index.lstat().st_mode)
    for path in before:  # links are kept under other names, their targets are unchanged
        assert path.is_symlink() or path.with_name(f"{path.name}.old").is_symlink()


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_the_user_names(kind: str, disk: Path) -> None:
    given = disk.parent / "given"
    replaced(disk.parent, ["given"], kind)
    lines = disk.parent / "lines"
    lines.write_text('{"value":"x"}\n')
    for command in (
        f"retention {disk} --config {given}",
        f"cat {disk} --value-format avro --value-schema {given}",
        f"cat {disk} --value-format protobuf --value-schema {given}:M",
        f"replay {disk} --bootstrap-server 127.0.0.1:1 --producer-config {given}",
        *(
            (f"build {given} {disk.parent}/built", f"request-header {given}")
            * (kind != "a huge file")
        ),
    ):
        result = run(*command.split())
        assert result.code
        assert str(given) in result.err, command
        assert "is not one of" not in result.err
    run(*f"replay {disk} --bootstrap-server 127.0.0.1:1 --dry-run --state {given}".split())
    assert os.path.lexists(given)


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_of_a_directory(kind: str, tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    replaced(schemas, ["7.avsc", "8.desc"], kind)
    (tmp_path / "t-0").mkdir()
    framed = b"".join(
        record(None, bytes((0, 0, 0, 0, number, 2, 97)), number - 7) for number in (7, 8)
    )
    (tmp_path / "t-0" / ORDERS.name).write_bytes(batch_of(framed, 0, 2))
    run("cat", tmp_path / "t-0", "--value-format", "confluent", "--schemas", schemas)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_an_earlier_export(kind: str, disk: Path) -> None:
    pytest.importorskip("pyarrow")
    exported = disk.parent / "exported"
    run("export", disk, "--to", exported)
    replaced(exported / "_kfmt", ["manifest.json"], kind)
    result = run("export", disk, "--to", exported, "--force")
    assert result.code == 3, result.err
    (exported / ".kfmt-export-unfinished").unlink(missing_ok=True)
    replaced(exported, [".kfmt-export-unfinished"], kind)
    run("export", disk, "--to", exported)
    assert run("build", exported, disk.parent / "built").code in {
        0,
        3,
    }  # without or with a manifest


def test_a_manifest_that_is_no_json_hides_no_file_and_shows_none(disk: Path) -> None:
    pytest.importorskip("pyarrow")
    exported = disk.parent / "exported"
    run("export", disk, "--to", exported)
    manifest = exported / "_kfmt/manifest.json"
    manifest.write_text(manifest.read_text()[:-9])
    for arguments in (
        ("build", exported, disk.parent / "built"),
        ("export", disk, "--to", exported, "--force"),
    ):
        result = run(*arguments)
        assert result.code == 3
        assert f"{manifest}: not JSON" in result.err


def test_the_largest_file_that_is_read_as_a_whole(disk: Path) -> None:
    with (disk.parent / "given").open("wb") as file:
        file.truncate(MAX_SIDE_FILE_BYTES + 1)
    schema = ("--value-format", "avro", "--value-schema", f"{disk.parent}/given")
    result = run("cat", disk, *schema)
    assert f"is larger than {MAX_SIDE_FILE_BYTES} bytes" in result.err
