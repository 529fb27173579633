"""Python functions for the commands that write: each returns the results that the command prints.

As on the command line, inputs are never changed, and an output appears complete or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.commands.python.command_result import CommandResult, run_command
from kfmt_cli.commands.python.read import Path, Paths, as_tuple, resolve_paths
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.urls import absolute_path, strip_file_scheme
from kfmt_cli.errors import UsageError, unknown_name_error


def salvage(
    source: Path,
    destination: Path,
    *,
    records: bool = False,
    deleted: bool = False,
    topic: str | None = None,
    index_interval_bytes: int | None = None,
    jobs: int | None = None,
) -> CommandResult:
    """Copy every undamaged batch into new logs, as `kfmt salvage` does.

    destination: a new directory. records: also keep readable records of damaged batches. deleted:
    also copy data that a broker marked as deleted. topic: the topic that the new partitions will
    belong to. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.commands.salvage.command import SalvageCommand
    from kfmt_cli.commands.salvage.options import SalvageOptions

    (source_path,) = resolve_paths([source])
    options = SalvageOptions(
        source=source_path,
        destination=_output_location(destination),
        records=records,
        deleted=deleted,
        topic=topic,
        index_interval_bytes=index_interval_bytes or DEFAULT_INDEX_INTERVAL_BYTES,
        jobs=jobs,
    )
    return run_command(SalvageCommand, options)


def rebuild_index(
    paths: Paths,
    destination: Path,
    *,
    as_started: bool = False,
    index_interval_bytes: int | None = None,
    force: bool = False,
) -> CommandResult:
    """Write the indexes that log recovery would write into a directory, as `kfmt rebuild-index`
    does.

    as_started: write the files that a start after a crash leaves. index_interval_bytes: by default,
    the setting of each topic. force: replace existing files. Raises InputError, UsageError,
    OutputError.
    """
    from kfmt_cli.commands.rebuild_index.command import RebuildIndexCommand
    from kfmt_cli.commands.rebuild_index.options import RebuildIndexOptions

    options = RebuildIndexOptions(
        paths=(*resolve_paths(paths), _output_location(destination)),
        as_started=as_started,
        index_interval_bytes=index_interval_bytes,
        force=force,
    )
    return run_command(RebuildIndexCommand, options)


def build(
    source: Path,
    destination: Path,
    *,
    as_topic: str | None = None,
    topic: str | None = None,
    force: bool = False,
    **options: Any,
) -> CommandResult:
    """Write segments from a file of JSON Lines, as `kfmt build` does.

    as_topic: the topic that all records will belong to; topic is its former spelling. options: the
    command's options for batches, such as compression="zstd" or batch_records=100. Raises
    InputError, UsageError, OutputError.
    """
    from kfmt_cli.commands.build.command import BuildCommand
    from kfmt_cli.commands.build.options import BATCH_OPTION_NAMES, BuildOptions

    if unknown_names := sorted(options.keys() - set(BATCH_OPTION_NAMES)):
        raise UsageError(f"no option named {unknown_names[0]!r}")
    source_path = os.fsdecode(source)
    if source_path == STDIN_PATH:
        raise UsageError("-: the Python API cannot read standard input; give a file")
    build_options = BuildOptions(
        source=source_path,
        destination=_output_location(destination),
        as_topic=as_topic,
        topic=topic,
        force=force,
        **options,
    )
    return run_command(BuildCommand, build_options)


def export(
    paths: Paths,
    to: Path,
    *,
    file_format: str = "parquet",
    tables: Iterable[str] = ("records",),
    columns: Iterable[str] = (),
    topic: str | Iterable[str] = (),
    topics: Iterable[str] = (),
    force: bool = False,
    jobs: int | None = None,
    **options: Any,
) -> CommandResult:
    """Write records, batches or both as files for a lake, as `kfmt export` does.

    file_format: parquet, json or csv. topic: only these topics; names may contain * and ?. topics:
    its former spelling. options: partition_by, one_file_per_partition, schema, target_file_bytes.
    Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.commands.export.command import ExportCommand
    from kfmt_cli.commands.export.options import ExportOptions
    from kfmt_cli.options.lake import LakeFileOptions

    known_names = sorted(LakeFileOptions.__dataclass_fields__)
    for name in options:
        if name not in known_names:
            raise unknown_name_error("option", name, known_names)
    export_options = ExportOptions(
        paths=tuple(map(absolute_path, resolve_paths(paths))),
        to=_output_location(to),
        file_format=file_format,
        tables=",".join(as_tuple(tables)),
        columns=",".join(as_tuple(columns)),
        topic=as_tuple(topic),
        topics=",".join(as_tuple(topics)),
        force=force,
        jobs=jobs,
        **options,
    )
    return run_command(ExportCommand, export_options)


def _output_location(output_path: Path) -> str:
    """The path, or the URL of an object store, to write to; raises UsageError for an empty path."""
    if not (location := strip_file_scheme(os.fsdecode(output_path))):
        raise UsageError("a path cannot be empty")
    return location
