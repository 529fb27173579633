"""Options of export."""

from __future__ import annotations

import click

from kfmt_cli.errors import unknown_name_error
from kfmt_cli.options.common import (
    ALL_REPLICAS_HELP,
    PathsOptions,
    force_option,
    require_packages,
    topic_filter_option,
)
from kfmt_cli.options.declaration import command_options, deprecated, option, options_class
from kfmt_cli.options.lake import LakeFileOptions
from kfmt_cli.options.parameter_types import ByteSizeType, parse_literal_path
from kfmt_cli.options.payload_options import DecodeOptions
from kfmt_cli.options.selection import RecordSelectionOptions
from kfmt_cli.render.output_formats import OUTPUT_FORMATS

EXPORT_FORMATS = ("parquet", "json", "csv")


@options_class
class ExportTableOptions(PathsOptions):
    """The tables of an export; these options precede those of `LakeFileOptions`."""

    to: str = option(metavar="DIR", type=parse_literal_path, help="Output directory.")
    file_format: str = option(
        "--format",
        default=EXPORT_FORMATS[0],
        type=click.Choice(EXPORT_FORMATS),
        help="File format; json and csv match the output of dump, with absolute paths.",
    )
    format_: str = option(
        "--report",
        default="table",
        type=click.Choice([format_.name for format_ in OUTPUT_FORMATS]),
        help="Output format for the per-file results.",
    )
    tables: str = option(
        default="records",
        type=click.Choice(["records", "batches", "records,batches"]),
        help="Tables to write.",
    )
    columns: str = option(default="", help="Record columns, comma-separated.")
    topic: tuple[str, ...] = topic_filter_option()
    topics: str = deprecated("--topics", use="--topic", default="")
    all_replicas: bool = option(default=False, help=ALL_REPLICAS_HELP)


@command_options(
    "export",
    "Export records or batches as Parquet files.",
    common=("lists_all", "color", "strict", "given_findings", "jobs", "max_decompressed"),
)
class ExportOptions(DecodeOptions, LakeFileOptions, RecordSelectionOptions, ExportTableOptions):
    """Write records, batches or both as Parquet files, ready for a data lake.

    Writes the same files as kfmt pipeline export, using the cores of this machine: a few large
    files, each covering many segments, with topic and partition as columns. DIR/_kfmt/manifest.json
    maps files to segments. DIR is created; without --force, it must be empty. Damage is reported
    and everything readable is written. Each record is read once, from the best of several replicas.
    Needs pip install 'kfmt-cli[arrow]'.

    \b
    Examples:
      kfmt export sample_segments/kafka-3.9.1-broker1/orders-0 --to DST
      kfmt export sample_segments/kafka-3.9.1-broker1 --to DST --tables records,batches
      kfmt export sample_segments/kafka-3.9.1-broker1/orders-0 --to DST --value-format json
    """

    max_split_bytes: int | None = option(
        default=None, type=ByteSizeType(), help="Old name of --target-file-bytes."
    )
    dry_run: bool = option(default=False, help="Show what would be read and written, then exit.")
    force: bool = force_option()

    def __post_init__(self) -> None:
        from kfmt_cli.rows.table_types import LAKE_TABLES

        require_packages("arrow", "pyarrow")
        for table_name in self.tables.split(","):
            if table_name not in LAKE_TABLES:
                raise unknown_name_error("table", table_name, LAKE_TABLES)
        if self.file_format not in EXPORT_FORMATS:
            raise unknown_name_error("file format", self.file_format, EXPORT_FORMATS)
