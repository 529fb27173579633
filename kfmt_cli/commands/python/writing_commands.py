"""The commands that write, for programs: each returns the results that the command prints.

As on the command line, inputs are never changed, and an output is complete or does not appear.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.python.command_result import CommandResult, run_command
from kfmt_cli.commands.python.read import Path, Paths, as_tuple, resolve_paths
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import strip_file_scheme
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
    also take what a broker marked as deleted. topic: the topic to which the partitions are to
    belong. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
    from kfmt_cli.commands.salvage.command import SALVAGE_RESULT, SalvageCommand
    from kfmt_cli.disk.file_names import find_topic_name_error

    if topic is not None and (topic_name_error := find_topic_name_error(topic)):
        raise UsageError(topic_name_error)

    def command(run: CommandRun) -> None:
        (source_path,) = resolve_paths([source])
        interval_bytes = index_interval_bytes or DEFAULT_INDEX_INTERVAL_BYTES
        n_jobs = jobs or available_cores()
        salvage_command = SalvageCommand(
            run, DecompressionLimit(), n_jobs, interval_bytes, records, deleted, topic
        )
        salvage_command.salvage(source_path, _output_location(destination))

    return run_command(command, SALVAGE_RESULT)


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

    as_started: those that a start after a crash leaves. index_interval_bytes: by default that of
    each topic. force: replace files there. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.broker.defaults import DEFAULT_PRODUCER_ID_EXPIRATION_MS
    from kfmt_cli.commands.rebuild_index.command import REBUILD_RESULT, RebuildIndexCommand

    expired_before_ms = now_ms() - DEFAULT_PRODUCER_ID_EXPIRATION_MS

    def command(run: CommandRun) -> None:
        rebuild_command = RebuildIndexCommand(
            run, index_interval_bytes, force, False, expired_before_ms, as_started
        )
        rebuild_command.rebuild(resolve_paths(paths), _output_location(destination))

    return run_command(command, REBUILD_RESULT)


def build(
    source: Path,
    destination: Path,
    *,
    topic: str | None = None,
    force: bool = False,
    **options: Any,
) -> CommandResult:
    """Write segments from a file of JSON Lines, as `kfmt build` does.

    topic: the topic to which all records are to belong. options: those of the command that shape
    batches, such as compression="zstd" or batch_records=100. Raises InputError, UsageError,
    OutputError.
    """
    from kfmt_cli.commands.build.command import BUILD_RESULT_TYPE, BuildCommand, parse_build_options
    from kfmt_cli.writers.rolling_writer import RollSettings

    batch_options, source_path = parse_build_options(**options), os.fsdecode(source)
    if source_path == STDIN_PATH:
        raise UsageError("-: the Python API cannot read standard input; give a file")
    roll_settings = RollSettings(keeps_named_segments=True)
    return run_command(
        lambda run: BuildCommand(run, batch_options, roll_settings, topic).build(
            source_path, _output_location(destination), force
        ),
        BUILD_RESULT_TYPE,
    )


def export(
    paths: Paths,
    to: Path,
    *,
    file_format: str = "parquet",
    tables: Iterable[str] = ("records",),
    columns: Iterable[str] = (),
    topics: Iterable[str] = (),
    force: bool = False,
    jobs: int | None = None,
    **options: Any,
) -> CommandResult:
    """Write records, batches or both as files for a lake, as `kfmt export` does.

    file_format: parquet, json or csv. options: partition_by, one_file_per_partition, schema,
    target_file_bytes. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
    from kfmt_cli.arrow.export.lake_options import DEFAULT_LAKE_OPTIONS, parse_lake_options
    from kfmt_cli.commands.export.command import ExportCommand
    from kfmt_cli.disk.path_resolution import prepare_listable_path
    from kfmt_cli.execution.read_request import ReadRequest, build_request
    from kfmt_cli.rows.table_types import LAKE_TABLES, export_result_type

    table_names = as_tuple(tables)
    known_names: Iterable[str]
    for argument_kind, argument_names, known_names in (
        ("table", table_names, LAKE_TABLES),
        ("file format", (file_format,), FILE_FORMATS),
        ("option", options, sorted(DEFAULT_LAKE_OPTIONS.keys() - {"tables", "columns"})),
    ):
        for argument_name in argument_names:
            if argument_name not in known_names:
                raise unknown_name_error(argument_kind, argument_name, known_names)
    selection_texts = {"tables": ",".join(table_names), "columns": ",".join(as_tuple(columns))}
    lake_options = parse_lake_options(
        {**DEFAULT_LAKE_OPTIONS, **options, **selection_texts}, file_format
    )
    n_jobs = jobs or available_cores()
    read_request = build_request(
        ReadRequest(max_split_bytes=lake_options.target_file_bytes, parallelism=n_jobs),
        map(prepare_listable_path, resolve_paths(paths)),
        selection_texts["columns"],
        ",".join(as_tuple(topics)),
    )
    export_command = ExportCommand(read_request, _output_location(to), lake_options, n_jobs, force)

    def command(run: CommandRun) -> None:
        export_command.on_note = run.sink.write_to_stderr
        run.run_task(export_command, read_request.paths)

    return run_command(command, export_result_type(lake_options.table_names))


def _output_location(output_path: Path) -> str:
    """The path, or the URL of an object store, to write to; raises UsageError for an empty path."""
    if not (location := strip_file_scheme(os.fsdecode(output_path))):
        raise UsageError("a path cannot be empty")
    return location
