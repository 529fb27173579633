"""The schemas of a schema registry, from its topic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kfmt_cli.broker.state.schema_registry import SchemaRegistryReplay, add_registered_schema
from kfmt_cli.commands.state.internal_topics import find_internal_partitions, replay_log_records
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.urls import format_display_name, is_url
from kfmt_cli.disk.directory_listing import file_modified_ms, file_size, list_directory
from kfmt_cli.disk.file_access import is_directory, is_file, path_exists, read_bytes_at
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.path_resolution import mount_and_resolve_path
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.topics.payloads import SchemaRegistry

SCHEMAS_TOPIC = "_schemas"
MAX_EXPORT_BYTES = 256 << 20
NO_REGISTRY_MESSAGE = (
    "kfmt asks no registry; save its answer to GET /schemas as schemas.json, and use --schemas "
    "schemas.json"
)
SCHEMAS_PARTITION = f"{SCHEMAS_TOPIC}-0"


def find_registry_near(paths: Sequence[str]) -> SchemaRegistry | None:
    """The registry whose topic is in the same log directory as one of the paths; the first such."""
    for user_path in paths:
        path = user_path
        with suppress(InputError):  # reading the path reports it
            path = mount_and_resolve_path(user_path)
        resolved_path = Path(path) if is_url(path) else Path(os.path.realpath(path))
        for ancestor in (resolved_path, resolved_path.parent, resolved_path.parent.parent):
            if is_directory(str(ancestor / SCHEMAS_PARTITION)):
                return read_registry(str(ancestor / SCHEMAS_PARTITION))
    return None


def read_registry(path: str) -> SchemaRegistry | None:
    """The registry whose topic is at a path, or None; raises InputError if it cannot be read.

    Damaged records are skipped: decoding a payload with a missing schema reports it.
    """
    if path.startswith(("http:", "https:")):
        raise UsageError(f"--schemas {path}: {NO_REGISTRY_MESSAGE}")
    path = mount_and_resolve_path(path)
    if path.endswith(".json") and is_file(path):
        return _read_answers([path])
    partition_path = Path(path) / SCHEMAS_PARTITION
    if is_directory(str(partition_path)):
        return read_registry(str(partition_path))
    if not path_exists(path):
        return None
    if is_directory(path) and Path(os.path.realpath(path)).name != SCHEMAS_PARTITION:
        answer_paths = _answer_paths(path)
        return _read_answers(answer_paths) if answer_paths else None
    logs = [
        log
        for partition in find_internal_partitions((path,), SCHEMAS_TOPIC, lambda _: None)
        for log in partition.logs
    ]
    return _replay_registry(
        tuple(logs), tuple((file_size(log), file_modified_ms(log)) for log in logs)
    )


def _answer_paths(directory: str) -> list[str]:
    """The .json files of a directory whose files are not named after schema ids."""
    files = [Path(file) for file in list_directory(directory).regular_files]
    if any(file.stem.isdecimal() for file in files):
        return []
    return sorted(str(Path(directory, file)) for file in files if file.suffix == ".json")


def _read_answers(paths: Sequence[str]) -> SchemaRegistry:
    """The registry in files with answers of its REST API, each all schemas, or one version of a
    subject; raises InputError."""
    registry = SchemaRegistry()
    for path in paths:
        display_path = format_display_name(path)
        try:
            answer = parse_json(read_bytes_at(path, 0, MAX_EXPORT_BYTES))
        except ValueError as error:
            raise InputError(f"{display_path}: not JSON: {error}") from None
        for schema_fields in answer if isinstance(answer, list) else [answer]:
            is_schema = isinstance(schema_fields, dict) and "schema" in schema_fields
            if not is_schema or not add_registered_schema(registry, schema_fields):
                message = "not a schema registry's response with ids, such as to GET /schemas"
                raise InputError(f"{display_path}: {message}")
    return registry


@lru_cache(maxsize=8)
def _replay_registry(logs: tuple[InputFile, ...], _: tuple[tuple[int, int], ...]) -> SchemaRegistry:
    """The registry in some logs; the second argument, their sizes and times, is for the cache."""
    replay = SchemaRegistryReplay()
    for log in logs:
        for _finding in replay_log_records(replay, log):
            pass
    return replay.all_schemas
