"""What salvage and merge write is a partition that its broker serves: with its id and epochs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

SOURCE = SAMPLES / "kafka-3.9.1-broker1"
ID_FILE = "partition.metadata"


def make_disk(path: Path) -> Path:
    """A log directory with a metadata log and a partition without its id; returns the partition."""
    shutil.copytree(SOURCE / "__cluster_metadata-0", path / "__cluster_metadata-0")
    shutil.copy(SOURCE / "meta.properties", path)
    shutil.copytree(SOURCE / "codec-gzip-0", path / "codec-gzip-0")
    (path / "codec-gzip-0" / ID_FILE).unlink()
    return path / "codec-gzip-0"


@pytest.mark.parametrize("content", [None, "version: 0\n", ""])
def test_salvage_writes_the_id_that_the_metadata_log_has(
    content: str | None, tmp_path: Path
) -> None:
    partition = make_disk(tmp_path / "disk")
    if content is not None:
        (partition / ID_FILE).write_text(content)
    kfmt("salvage", partition, tmp_path / "out")
    assert (tmp_path / "out" / ID_FILE).read_text() == (
        SOURCE / "codec-gzip-0" / ID_FILE
    ).read_text()
    shutil.rmtree(partition)
    (tmp_path / "out").rename(partition)
    result = kfmt("check", tmp_path / "disk", "--json")
    assert {row["becomes"] for row in result.of("broker_start")} == {None}


def test_merge_writes_the_id_too(tmp_path: Path) -> None:
    make_disk(tmp_path / "disk")
    kfmt("merge", tmp_path / "disk", "--topics", "codec-gzip", "--to", tmp_path / "out")
    written = tmp_path / "out/codec-gzip-0" / ID_FILE
    assert written.read_text() == (SOURCE / "codec-gzip-0" / ID_FILE).read_text()


def test_another_topic_does_not_get_the_id(tmp_path: Path) -> None:
    partition = make_disk(tmp_path / "disk")
    kfmt("salvage", partition, tmp_path / "out", "--as", "other")
    assert not list((tmp_path / "out").rglob(ID_FILE))


def test_epochs_after_the_written_end_are_dropped(tmp_path: Path) -> None:
    partition = make_disk(tmp_path / "disk")
    (partition / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 700\n2 8700\n")
    result = kfmt("salvage", partition, tmp_path / "out")
    assert result.code == 0
    written = tmp_path / "out/leader-epoch-checkpoint"
    assert written.read_text() == "0\n2\n0 0\n1 700\n"
