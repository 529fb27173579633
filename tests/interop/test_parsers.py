"""Texts in a broker's files are read as Java and Kafka read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.meta_properties import parse_topic_id, read_meta_properties
from kfmt_cli.broker.start.checkpoints import (
    CheckpointError,
    CheckpointNumberError,
    read_checkpoint_offsets,
    read_epoch_entries,
)
from kfmt_cli.core.integers import parse_java_int
from kfmt_cli.core.uuids import format_uuid, parse_uuid
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds.properties import decode_java_properties, parse_java_properties
from tests.support.parser_cases import changed_inputs, known_inputs
from tools import kafka
from tools.parsers import parse_all

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
REFUSED = "refused"


def _integer(data: bytes, n_bits: int) -> Any:
    number = parse_java_int(data.decode(errors="replace"), n_bits)
    return REFUSED if number is None else number


def _properties(data: bytes) -> Any:
    errors: list[str] = []
    text = decode_java_properties(data)
    entries = list(parse_java_properties(text, lambda _, message: errors.append(message)))
    return REFUSED if errors else {name: value for _, name, value in entries}


def _meta_properties(data: bytes, path: Path) -> Any:
    path.write_bytes(data)
    properties = read_meta_properties(classify_file(str(path), path.name))
    if properties.problem is not None:
        return REFUSED
    names = ("version", "cluster_id", "node_id", "directory_id")
    return {name: getattr(properties, name) for name in names}


def _checkpoint(data: bytes, path: Path) -> Any:
    path.write_bytes(data)
    file = classify_file(str(path), path.name)
    if path.name == "leader-epoch-checkpoint":
        return [list(entry) for entry in read_epoch_entries(file)]
    offsets = read_checkpoint_offsets(file)
    return {f"{topic} {partition}": offset for (topic, partition), offset in offsets.items()}


def parsed(kind: str, data: bytes, directory: Path) -> Any:
    """The value that kfmt reads, or `REFUSED`."""
    path = directory / kind
    parsers: dict[str, Callable[[], Any]] = {
        "int": lambda: _integer(data, 32),
        "long": lambda: _integer(data, 64),
        "uuid": lambda: format_uuid(parse_uuid(data.decode(errors="replace"))),
        "properties": lambda: _properties(data),
        "meta.properties": lambda: _meta_properties(data, path),
        "partition.metadata": lambda: format_uuid(
            parse_topic_id(classify_file(str(path), kind), data)
        ),
    }
    try:
        return parsers.get(kind, lambda: _checkpoint(data, path))()
    except (ValueError, StartError, CheckpointError, CheckpointNumberError):
        return REFUSED


def _is_refused_later(value: Any) -> bool:
    """Whether the broker refuses what the parser of meta.properties accepts: a negative node.id
    cannot be configured, and MetaPropertiesEnsemble refuses reserved ids of directories."""
    directory_id = value["directory_id"]
    is_reserved = directory_id is not None and int.from_bytes(parse_uuid(directory_id), "big") < 100
    return is_reserved or (value["node_id"] is not None and value["node_id"] < 0)


def differences(inputs: list[tuple[str, bytes]], version: str, directory: Path) -> list[str]:
    """The inputs that Kafka reads otherwise."""
    found = []
    for (kind, data), result in zip(inputs, parse_all(inputs, version), strict=True):
        expected = result.get("value", REFUSED)
        if kind == "leader-epoch-checkpoint" and expected != REFUSED:
            expected = [
                [int(number) for number in re.findall(r"-?\d+", entry)] for entry in expected
            ]
        if kind == "meta.properties" and expected != REFUSED and _is_refused_later(expected):
            expected = REFUSED
        actual = parsed(kind, data, directory)
        if actual != expected:
            found.append(f"{kind} {data[:200]!r}: kfmt {actual}, Kafka {expected}")
    return found


@pytest.mark.parametrize(
    "version", [kafka.VERSION, pytest.param(kafka.NEWEST, marks=pytest.mark.long)]
)
def test_known_forms_are_read_as_kafka_reads_them(version: str, tmp_path: Path) -> None:
    assert differences(known_inputs(), version, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_changed_forms_are_read_as_kafka_reads_them(seed: int, tmp_path: Path) -> None:
    version = (kafka.VERSION, kafka.NEWEST)[seed % 2]
    assert differences(list(changed_inputs(seed, 4000)), version, tmp_path) == []
