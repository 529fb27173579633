"""Options of export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.lake_options import lake
from kfmt_cli.cli.options import Common, Size, common, force, paths, stored_path
from kfmt_cli.cli.payload_options import decoded
from kfmt_cli.cli.selection_options import selection
from kfmt_cli.errors import UsageError
from kfmt_cli.render.formats import FORMATS

if TYPE_CHECKING:
    from kfmt_cli.log.selection.select import Asked
    from kfmt_cli.topics.payloads import Payloads


@command(name="export", short_help="Export records or batches as Parquet files.")
@paths
@click.option("--to", required=True, metavar="DIR", type=stored_path, help="Output directory.")
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
    type=click.Choice([format_.name for format_ in FORMATS]),
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
@selection
@lake
@click.option("--max-split-bytes", type=Size(), help="Old name of --target-file-bytes.")
@decoded
@click.option("--dry-run", is_flag=True, help="Show what would be read and written, then exit.")
@force
@common("all", "color", "strict", "max-findings", "jobs", "max-decompressed")
def export(
    paths: tuple[str, ...],
    to: str,
    file_format: str,
    common: Common,
    tables: str,
    columns: str,
    topics: str,
    asked: Asked,
    payloads: Payloads,
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
    from kfmt_cli.arrow.export.lake import lake_of
    from kfmt_cli.commands.each_partition import LogStarts
    from kfmt_cli.commands.export.command import Export
    from kfmt_cli.disk.given import listed_form
    from kfmt_cli.rows.table_types import exported
    from kfmt_cli.sharing.request import Request, request_with

    if max_split_bytes is not None:
        options["target_file_bytes"] = max_split_bytes
    rows = lake_of({"columns": columns, "tables": tables, **options}, file_format)
    paths = tuple(map(listed_form, paths))
    request = Request(
        asked=asked,
        max_split=rows.target,
        parallelism=common.jobs,
        limit=common.limit,
        payloads=payloads,
    )
    request = request_with(request, paths, columns, topics)
    run = common.run(exported(rows.tables))
    task = Export(request, to, rows, common.jobs, force, common.max_findings, dry_run)
    task.log_starts, task.tell = LogStarts(run), run.sink.note
    return run.whole(task, paths)
