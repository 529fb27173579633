"""meta.properties and partition.metadata as Kafka's classes read them in
`tests/interop/test_parsers.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.meta_properties import (
    MetaProperties,
    parse_topic_id,
    read_meta_properties,
)
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import classify_file

TOPIC_ID = "ybtBF9nnQpSN1SaSgbqm2Q"
META = b"version=1\ncluster.id=x\nnode.id=1\n"


def read_meta(directory: Path, content: bytes) -> MetaProperties:
    """The values of a meta.properties with some content."""
    path = directory / "meta.properties"
    path.write_bytes(content)
    return read_meta_properties(classify_file(str(path), path.name))


@pytest.mark.parametrize(
    "text",
    [
        "version: 0\ntopic_id: {}",
        "version: 0\rtopic_id: {}\r\n\r\n",
        "version:\v0\ntopic_id:\f{}",
        "version: +0\ntopic_id: {}==",
        "x: 0\n\u2028y: {}\nanything",
    ],
)
def test_a_topic_id_that_kafka_reads_is_read(text: str) -> None:
    file = classify_file("partition.metadata", "partition.metadata")
    data = text.format(TOPIC_ID).encode()
    assert format_uuid(parse_topic_id(file, data)) == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    [
        "version: 0\vtopic_id: {}",
        "version: 0\u2028topic_id: {}",
        "version:\u00a00\ntopic_id: {}",
        "version:\x1c0\ntopic_id: {}",
        "version:0\ntopic_id:{}",
        "version: 0 \ntopic_id: {}",
        "version: 0\ntopic_id: {}=",
    ],
)
def test_a_topic_id_that_kafka_refuses_is_refused(text: str) -> None:
    file = classify_file("partition.metadata", "partition.metadata")
    with pytest.raises(StartError):
        parse_topic_id(file, text.format(TOPIC_ID).encode())


def test_an_id_with_padding_is_the_same_id(tmp_path: Path) -> None:
    content = META + f"directory.id={TOPIC_ID}==\n".encode()
    assert read_meta(tmp_path, content).directory_id == TOPIC_ID


@pytest.mark.parametrize("version", [b"1 ", b"+1", b"01", b"1\x1c", b"\\u0031", b"\\\n  1"])
def test_a_version_that_kafka_reads_is_read(version: bytes, tmp_path: Path) -> None:
    properties = read_meta(tmp_path, META.replace(b"version=1", b"version=" + version))
    assert (properties.version, properties.problem) == (1, None)


@pytest.mark.parametrize("version", [b"2", b"1\xa0", b"1\x85", b"", b"\\u003", b"1_0", b"-1"])
def test_a_version_that_kafka_refuses_is_a_problem(version: bytes, tmp_path: Path) -> None:
    properties = read_meta(tmp_path, META.replace(b"version=1", b"version=" + version))
    assert properties.problem is not None
