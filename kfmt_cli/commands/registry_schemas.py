"""The schemas of a schema registry, from its topic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kfmt_cli.broker.state.schema_registry import SchemaRegistryReplay
from kfmt_cli.commands.state.internal_topics import find_internal_partitions, replay_log_records
from kfmt_cli.core.urls import is_url
from kfmt_cli.disk.directory_listing import file_modified_ms, file_size
from kfmt_cli.disk.file_access import is_directory, path_exists
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.path_resolution import mount_and_resolve_path
from kfmt_cli.errors import InputError
from kfmt_cli.topics.payloads import SchemaRegistry

SCHEMAS_TOPIC = "_schemas"
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
    path = mount_and_resolve_path(path)
    partition_path = Path(path) / SCHEMAS_PARTITION
    if is_directory(str(partition_path)):
        return read_registry(str(partition_path))
    directory = Path(path)
    if not path_exists(path) or (
        is_directory(path) and Path(os.path.realpath(directory)).name != SCHEMAS_PARTITION
    ):
        return None
    logs = [
        log
        for partition in find_internal_partitions((path,), SCHEMAS_TOPIC, lambda _: None)
        for log in partition.logs
    ]
    return _replay_registry(
        tuple(logs), tuple((file_size(log), file_modified_ms(log)) for log in logs)
    )


@lru_cache(maxsize=8)
def _replay_registry(logs: tuple[InputFile, ...], _: tuple[tuple[int, int], ...]) -> SchemaRegistry:
    """The registry in some logs; the second argument, their sizes and times, is for the cache."""
    replay = SchemaRegistryReplay()
    for log in logs:
        for _finding in replay_log_records(replay, log):
            pass
    return replay.all_schemas
