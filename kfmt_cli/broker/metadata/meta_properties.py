"""meta.properties and partition.metadata, as a starting broker reads them.

Source: `org.apache.kafka.metadata.properties.MetaProperties`, `MetaPropertiesEnsemble`,
`org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.core.integers import java_trim, parse_java_int
from kfmt_cli.core.uuids import format_uuid, parse_uuid
from kfmt_cli.disk.kinds.kind import InputFile, quote_content, read_small_file
from kfmt_cli.disk.kinds.properties import (
    MAX_PROPERTIES_BYTES,
    decode_java_properties,
    parse_java_properties,
)
from kfmt_cli.errors import InputError

_FIELD_SEPARATOR = re.compile(r":\s+", re.ASCII)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_N_RESERVED_IDS = 100  # the lowest ids


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The values read from meta.properties."""

    is_missing: bool = False
    """Whether the file is missing."""
    version: int | None = None
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    problem: str | None = None
    """Why a broker does not start with this file."""

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft broker wrote it."""
        return self.version not in (None, 0)

    def is_same_broker(self, other: MetaProperties) -> bool:
        """Whether both have the ids of the same broker."""
        return self.node_id is not None and (self.cluster_id, self.node_id) == (
            other.cluster_id,
            other.node_id,
        )


def read_meta_properties(file: InputFile) -> MetaProperties:
    """The values in a meta.properties; raises InputError."""
    properties_text = decode_java_properties(read_small_file(file, MAX_PROPERTIES_BYTES))
    syntax_errors: list[str] = []
    parsed_lines = parse_java_properties(
        properties_text, lambda _, message: syntax_errors.append(message)
    )
    value_by_setting = {name: str(value) for _, name, value in parsed_lines}
    version = parse_java_int(java_trim(value_by_setting.get("version", "0")))
    node_id_setting = "broker.id" if version == 0 else "node.id"
    node_id = parse_java_int(value_by_setting.get(node_id_setting, ""))
    directory_id = value_by_setting.get("directory.id")
    problem = None
    if version not in (0, 1):
        problem = f"version {value_by_setting.get('version')} is unknown"
    elif node_id is None and (node_id_setting in value_by_setting or version == 1):
        problem = f"{node_id_setting} is missing or is not a number"
    elif node_id is not None and node_id < 0:
        problem = f"{node_id_setting} is {node_id}, which is negative"
    elif version == 1 and "cluster.id" not in value_by_setting:
        problem = "cluster.id is missing"
    elif directory_id is not None:
        directory_id, problem = _read_directory_id(directory_id)
    problem = next(iter(syntax_errors), problem)
    full_problem = None if problem is None else f"{file.name}: {problem}"
    return MetaProperties(
        False, version, value_by_setting.get("cluster.id"), node_id, directory_id, full_problem
    )


def _read_directory_id(id_text: str) -> tuple[str, str | None]:
    """The id without padding, and its problem."""
    try:
        id_bytes = parse_uuid(id_text)
    except ValueError:
        return id_text, f"directory.id {quote_content(id_text)} is not a valid id"
    if int.from_bytes(id_bytes, "big") < _N_RESERVED_IDS:
        return id_text, f"directory.id {id_text} is reserved"
    return format_uuid(id_bytes), None


def read_topic_id(file: InputFile) -> bytes:
    """The topic id of a partition.metadata; raises StartError, InputError."""
    return parse_topic_id(file, read_small_file(file, MAX_PROPERTIES_BYTES))


def parse_topic_id(file: InputFile, data: bytes) -> bytes:
    """The topic id in the bytes of a partition.metadata; raises StartError."""
    try:
        lines = _LINE_BREAK.split(data.decode())
    except UnicodeDecodeError:
        raise StartError(f"{file.name}: not a text file", is_offline=True) from None
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise StartError(f"{file.name}: the file is empty")
    version_fields = _FIELD_SEPARATOR.split(lines[0])
    version_number = parse_java_int(version_fields[1]) if len(version_fields) == 2 else None
    if version_number is None:
        raise StartError(
            f"{file.name}: {quote_content(lines[0])} is not a version line", is_offline=True
        )
    if version_number < 0:
        raise StartError(f"{file.name}: version {version_number}", is_offline=True)
    if len(lines) < 2:
        raise StartError(f"{file.name}: no topic id")
    id_fields = _FIELD_SEPARATOR.split(lines[1])
    if len(id_fields) != 2:
        raise StartError(
            f"{file.name}: {quote_content(lines[1])} is not a topic id", is_offline=True
        )
    try:
        data = parse_uuid(id_fields[1])
    except ValueError:
        raise StartError(f"{file.name}: {quote_content(id_fields[1])} is not an id") from None
    if not any(data):
        raise StartError(f"{file.name}: the topic id is zero", is_offline=True)
    return data


def read_meta_properties_leniently(
    file: InputFile, read_errors: list[InputError]
) -> MetaProperties:
    """The values in a meta.properties; an unreadable file counts as a problem, and its error
    is added to `read_errors`."""
    try:
        return read_meta_properties(file)
    except InputError as error:
        read_errors.append(error)
        return MetaProperties(problem=str(error))
