"""Links to directories: brokers follow them, so every command does, once."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
READERS = (
    ("verify-crc",),
    ("check",),
    ("stat",),
    ("index-check",),
    ("find", "--offset", "3"),
    ("dump",),
    ("txn",),
    ("retention",),
    ("compaction",),
    ("cat",),
    ("sql", "select topic from records"),
)

COUNTERS = (("verify-crc",), ("stat",), ("cat",), ("sql", "select topic from records"))


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A log directory in which a partition is a link to another disk."""
    disk, other = tmp_path / "disk", tmp_path / "other"
    for folder, name in ((disk, "empty-0"), (disk, "codec-none-0"), (other, "orders-0")):
        shutil.copytree(BROKER / name, folder / name)
    (disk / "orders-0").symlink_to(other / "orders-0")
    (disk / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    return disk


@pytest.mark.parametrize("words", READERS, ids=[words[0] for words in READERS])
def test_a_partition_on_another_disk_is_read(words: tuple[str, ...], linked: Path) -> None:
    read = kfmt(*words, linked, "--json")
    assert '"topic":"orders"' in read.out
    (linked / "orders-0").unlink()
    shutil.copytree(BROKER / "orders-0", linked / "orders-0")
    assert kfmt(*words, linked, "--json").out == read.out


def test_salvage_and_export_take_it_with_them(linked: Path, tmp_path: Path) -> None:
    assert kfmt("salvage", linked, tmp_path / "saved").code == 0
    (log, *_) = sorted((BROKER / "orders-0").glob("*.log"))
    assert (tmp_path / "saved/orders-0" / log.name).read_bytes() == log.read_bytes()
    assert kfmt("export", linked, "--to", tmp_path / "x").code == 0
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "x")
    assert "orders" in table.column("topic").to_pylist()


@pytest.mark.parametrize("words", COUNTERS, ids=[words[0] for words in COUNTERS])
def test_a_link_beside_its_directory_counts_once(
    words: tuple[str, ...], linked: Path, tmp_path: Path
) -> None:
    before = kfmt(*words, linked, "--json").out
    (linked / "alias-0").symlink_to(tmp_path / "other" / "orders-0")
    (linked / "zalias-0").symlink_to("codec-none-0")
    (linked / "up-0").symlink_to(tmp_path)
    (linked / "round-0").symlink_to(linked)
    after = kfmt(*words, linked, "--json").out
    assert sorted(after.replace('"alias"', '"orders"').replace("alias-0", "orders-0")) == sorted(
        before
    )


def test_a_link_is_named_as_its_broker_names_it(linked: Path, tmp_path: Path) -> None:
    """Its topic, and the checkpoint next to it, whatever the name of what it leads to."""
    (tmp_path / "other" / "orders-0").rename(tmp_path / "other" / "moved")
    (linked / "orders-0").unlink()
    (linked / "orders-0").symlink_to(tmp_path / "other" / "moved")
    for path in (linked, linked / "orders-0"):
        done = kfmt("find", "--offset", "310", path, "--json")
        assert '"topic":"orders"' in done.out
        said = kfmt("find", "--offset", "310", path)
        assert "log start offset 300" in said.err


def test_a_packed_log_next_to_a_plain_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / f"{0:020}.log"
    data = (BROKER / "orders-0" / log.name).read_bytes()
    (folder / f"{log.name}.gz").write_bytes(gzip.compress(data))
    whole = kfmt("cat", folder)
    assert whole.code == 0
    log.touch()
    for command in ("verify-crc", "cat"):
        done = kfmt(command, folder)
        assert done.code == 3
        assert f"{log.name}.gz: not read: {log.name} is next to it" in done.err
