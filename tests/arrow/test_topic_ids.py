"""The topic ids of exported and streamed partitions, wherever they are stored."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from kfmt_cli.arrow.topic_ids import read_directory_topic_id
from kfmt_cli.disk.input_paths import resolve_path
from tests.support.samples import ORDERS


def test_a_topic_id_is_read_from_a_directory_or_an_archive(tmp_path: Path) -> None:
    metadata = (ORDERS.parent / "partition.metadata").read_text()
    topic_id = metadata.partition("topic_id: ")[2].strip()
    assert read_directory_topic_id(str(ORDERS.parent)) == topic_id
    archive = tmp_path / "disk.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(ORDERS.parent, "orders-0")
    resolve_path(str(archive))
    assert read_directory_topic_id(f"{archive}/orders-0") == topic_id


@pytest.mark.parametrize("text", [None, "", "version: 0\n", "version: 0\ntopic_id: not an id\n"])
def test_without_a_valid_file_there_is_no_id(text: str | None, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(ORDERS.parent, tmp_path / "orders-0"))
    (directory / "partition.metadata").unlink()
    if text is not None:
        (directory / "partition.metadata").write_text(text)
    assert read_directory_topic_id(str(directory)) is None
