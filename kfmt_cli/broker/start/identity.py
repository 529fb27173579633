"""The owner of a log directory or a partition's directory, as a starting broker reads it.

Source: `org.apache.kafka.metadata.properties.MetaProperties`, `MetaPropertiesEnsemble`,
`org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.core.uuids import uuid_bytes
from kfmt_cli.disk.kinds.kind import Input, quoted, read_whole
from kfmt_cli.disk.kinds.properties import MOST_BYTES, java_properties, java_text
from kfmt_cli.errors import InputError

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}\Z")
_COLON = re.compile(r":\s+")
_RESERVED_IDS = 100  # the lowest ones


@dataclass(frozen=True, slots=True)
class Identity:
    """The values read from meta.properties."""

    is_missing: bool = False
    """Whether there is no such file."""
    version: int | None = None
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    trouble: str | None = None
    """Why a broker does not start with this file."""

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft broker wrote it."""
        return self.version == 1


def read_identity(file: Input) -> Identity:
    """The values in a meta.properties; raises InputError."""
    text = java_text(read_whole(file, MOST_BYTES))
    wrong: list[str] = []
    said = java_properties(text, lambda _, words: wrong.append(words))
    values = {name: str(value) for _, name, value in said}
    if wrong:
        return Identity(trouble=f"{file.name}: {wrong[0]}")
    version = _number(values.get("version", "0").strip())
    named = "broker.id" if version == 0 else "node.id"
    node = _number(values.get(named))
    directory = values.get("directory.id")
    trouble = None
    if version not in (0, 1):
        trouble = f"version {values.get('version')} is unknown"
    elif node is None and (named in values or version == 1):
        trouble = f"{named} is missing or is not a number"
    elif node is not None and node < 0:
        trouble = f"{named} is {node}, which is negative"
    elif version == 1 and "cluster.id" not in values:
        trouble = "cluster.id is missing"
    elif directory is not None:
        trouble = _wrong_id(directory)
    where = None if trouble is None else f"{file.name}: {trouble}"
    return Identity(False, version, values.get("cluster.id"), node, directory, where)


def _number(text: str | None) -> int | None:
    if text is None or _NUMBER.match(text) is None:
        return None
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else None


def _wrong_id(text: str) -> str | None:
    try:
        data = uuid_bytes(text)
    except ValueError:
        return f"directory.id {quoted(text)} is not a valid id"
    if int.from_bytes(data, "big") < _RESERVED_IDS:
        return f"directory.id {text} is reserved"
    return None


def read_topic_id(file: Input) -> bytes:
    """The topic id of a partition.metadata; raises StartFailed, InputError."""
    return topic_id_of(file, read_whole(file, MOST_BYTES))


def topic_id_of(file: Input, data: bytes) -> bytes:
    """The same, from the file's bytes."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise StartFailed(f"{file.name}: not a text file", is_offline=True) from None
    if not lines:
        raise StartFailed(f"{file.name}: the file is empty")
    version = _COLON.split(lines[0])
    number = _number(version[1]) if len(version) == 2 else None
    if number is None:
        raise StartFailed(f"{file.name}: {quoted(lines[0])} is not a version line", is_offline=True)
    if number < 0:
        raise StartFailed(f"{file.name}: version {number}", is_offline=True)
    if len(lines) < 2:
        raise StartFailed(f"{file.name}: no topic id")
    named = _COLON.split(lines[1])
    if len(named) != 2:
        raise StartFailed(f"{file.name}: {quoted(lines[1])} is not a topic id", is_offline=True)
    try:
        data = uuid_bytes(named[1])
    except ValueError:
        raise StartFailed(f"{file.name}: {quoted(named[1])} is not an id") from None
    if not any(data):
        raise StartFailed(f"{file.name}: the topic id is zero", is_offline=True)
    return data


def readable(file: Input, unread: list[InputError]) -> Identity:
    """The values in a meta.properties; an unreadable file counts as trouble, and its error is
    added to `unread`."""
    try:
        return read_identity(file)
    except InputError as error:
        unread.append(error)
        return Identity(trouble=str(error))
