"""The topic, partition and log directory of a file or directory, from its display path."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.urls import absolute_path
from kfmt_cli.disk.file_names import (
    cwd_cache_key,
    parse_remote_topic_partition,
    parse_topic_partition,
)
from kfmt_cli.rows.column import LOCATION_COLUMNS, LocationSource


def location_by_column(path: str, location_source: LocationSource) -> dict[str, Any]:
    """The values of `LOCATION_COLUMNS` for a path; null if no directory is named like a partition.

    location_source: whether the path is a file's or may be a partition directory.
    """
    return _cached_location(path, location_source, cwd_cache_key(path))


@lru_cache(maxsize=4096)
def _cached_location(path: str, location_source: LocationSource, _: str) -> dict[str, Any]:
    if path == STDIN_PATH:
        return dict.fromkeys(LOCATION_COLUMNS)
    directory = path
    topic: str | None = None
    if location_source is LocationSource.PARTITION:
        topic, partition = parse_topic_partition(_base_name(path))
    if topic is None:
        directory = _parent_directory(path)
        topic, partition = parse_topic_partition(_base_name(directory))
    if (
        topic is None
        and (remote_topic_partition := parse_remote_topic_partition(path))[0] is not None
    ):
        return dict(
            zip(
                LOCATION_COLUMNS,
                (*remote_topic_partition, _parent_directory(_parent_directory(directory))),
                strict=True,
            )
        )
    if topic is None:  # a link may lead to a partition
        real_path = os.path.realpath(path)
        directory = (
            real_path
            if location_source is LocationSource.PARTITION and os.path.isdir(real_path)  # noqa: PTH112
            else _parent_directory(real_path)
        )
        topic, partition = parse_topic_partition(_base_name(directory))
    location_values = (topic, partition, None if topic is None else _parent_directory(directory))
    return dict(zip(LOCATION_COLUMNS, location_values, strict=True))


def with_location(row: dict[str, object], location_source: LocationSource) -> dict[str, object]:
    """A row with `LOCATION_COLUMNS` inserted after its file, if its type has a location."""
    if not location_source.has_location or not isinstance(row.get("file"), str):
        return row
    row_with_location: dict[str, object] = {}
    for column_name, value in row.items():
        row_with_location[column_name] = value
        if column_name == "file":
            row_with_location |= location_by_column(str(value), location_source)
    return row_with_location


def _base_name(path: str) -> str:
    """The last name of a path; of the absolute path if it ends with `.` or `..`."""
    last_component = path.rstrip(os.sep).rpartition(os.sep)[2]
    if last_component in ("", os.curdir, os.pardir):
        last_component = absolute_path(path).rpartition(os.sep)[2]
    return last_component


def _parent_directory(path: str) -> str:
    """The parent directory of a path, relative to the current directory."""
    parent, separator, last_component = path.rstrip(os.sep).rpartition(os.sep)
    if last_component == os.curdir and parent:
        return _parent_directory(parent)
    if last_component in ("", os.curdir):
        return os.pardir
    if last_component == os.pardir:
        return f"{path}{os.sep}{os.pardir}"
    return parent or (os.sep if separator else os.curdir)
