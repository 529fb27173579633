"""Options of export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.lake_options import add_lake_options
from kfmt_cli.cli.options import (
    ByteSizeType,
    CommonOptions,
    common_options,
    force_option,
    parse_literal_path,
    paths_argument,
)
from kfmt_cli.cli.payload_options import add_decode_options
from kfmt_cli.cli.selection_options import add_selection_options
from kfmt_cli.errors import UsageError
from kfmt_cli.render.output_formats import OUTPUT_FORMATS

if TYPE_CHECKING:
    from kfmt_cli.log.selection.selection import SelectionOptions
    from kfmt_cli.topics.payloads import PayloadDeclarations


@grouped_command(name="export", short_help="Export records or batches as Parquet files.")
@paths_argument
@click.option(
    "--to", required=True, metavar="DIR", type=parse_literal_path, help="Output directory."
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "json", "csv"]),
    default="parquet",
    show_default=True,
    help="File format; json and csv match the output of dump, with absolute paths.",
)
@click.option(
    "--report",
    "format_",
    type=click.Choice([format_.name for format_ in OUTPUT_FORMATS]),
    default="table",
    show_default=True,
    help="Output format for the per-file results.",
)
@click.option(
    "--tables",
    type=click.Choice(["records", "batches", "records,batches"]),
    default="records",
    show_default=True,
    help="Tables to write.",
)
@click.option("--columns", default="", help="Record columns, comma-separated.")
@click.option("--topics", default="", help="Only these topics, comma-separated.")
@add_selection_options
@add_lake_options
@click.option("--max-split-bytes", type=ByteSizeType(), help="Old name of --target-file-bytes.")
@add_decode_options
@click.option("--dry-run", is_flag=True, help="Show what would be read and written, then exit.")
@force_option
@common_options("all", "color", "strict", "max-findings", "jobs", "max-decompressed")
def export(
    paths: tuple[str, ...],
    to: str,
    file_format: str,
    common: CommonOptions,
    tables: str,
    columns: str,
    topics: str,
    asked: SelectionOptions,
    payloads: PayloadDeclarations,
    dry_run: bool,
    max_split_bytes: int | None,
    force: bool,
    **options: Any,
) -> int:
    """Write records, batches or both as Parquet files, ready for a data lake.

    Writes the same files as kfmt pipeline export, using the cores of this machine: a few large
    files, each covering many segments, with topic and partition as columns. DIR/_kfmt/manifest.json
    maps files to segments. DIR is created; without --force, it must be empty. Damage is reported
    and everything readable is written. Needs pip install 'kfmt-cli[arrow]'.

    \b
    Examples:
      kfmt export sample_segments/kafka-3.9.1-broker1/orders-0 --to DST
      kfmt export sample_segments/kafka-3.9.1-broker1 --to DST --tables records,batches
      kfmt export sample_segments/kafka-3.9.1-broker1/orders-0 --to DST --value-format json
    """
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise UsageError("pyarrow is not installed: pip install 'kfmt-cli[arrow]'")
    from kfmt_cli.arrow.export.lake_options import parse_lake_options
    from kfmt_cli.commands.each_partition import LogStartReporter
    from kfmt_cli.commands.export.command import ExportCommand
    from kfmt_cli.disk.path_resolution import prepare_listable_path
    from kfmt_cli.execution.read_request import ReadRequest, build_request
    from kfmt_cli.rows.table_types import export_result_type

    if max_split_bytes is not None:
        options["target_file_bytes"] = max_split_bytes
    parsed_options = parse_lake_options(
        {"columns": columns, "tables": tables, **options}, file_format
    )
    paths = tuple(map(prepare_listable_path, paths))
    request = ReadRequest(
        selection_options=asked,
        max_split_bytes=parsed_options.target_file_bytes,
        parallelism=common.jobs,
        decompression_limit=common.decompression_limit,
        payload_declarations=payloads,
    )
    request = build_request(request, paths, columns, topics)
    run = common.start_run(export_result_type(parsed_options.table_names))
    command = ExportCommand(
        request, to, parsed_options, common.jobs, force, common.max_findings, dry_run
    )
    command.log_start_reporter, command.on_note = LogStartReporter(run), run.sink.write_to_stderr
    return run.run_task(command, paths)
