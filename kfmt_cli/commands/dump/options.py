"""Options of dump."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kfmt_cli.errors import UsageError, unknown_name_error
from kfmt_cli.options.common import (
    TopicFilterOptions,
    all_files_option,
    decoder_topic_option,
    layout_option,
)
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.payload_options import PayloadOptions
from kfmt_cli.options.selection import RecordSelectionOptions
from kfmt_cli.render.output_formats import load_sink_class

if TYPE_CHECKING:
    from kfmt_cli.render.sinks.sink import DisplayOptions


def _write_file_kinds(formatter: click.HelpFormatter) -> None:
    """List the files that are read, from the registry of kinds."""
    from kfmt_cli.disk.kinds import KINDS

    with formatter.section("Files"):
        for kind in KINDS:
            for i, name_pattern in enumerate(kind.name_patterns):
                kind_title = "" if i else kind.name.replace("_", " ")
                formatter.write(f"  {kind_title:<18} {name_pattern}\n")


@command_options(
    "dump",
    "Show every field of every batch, record or entry.",
    common=(
        *("wide", "format_", "table", "color", "strict"),
        *("given_findings", "jobs", "max_decompressed"),
    ),
    write_epilog=_write_file_kinds,
)
class DumpOptions(PayloadOptions, RecordSelectionOptions, TopicFilterOptions):
    """Show every field of every batch or record, and every entry of any other file.

    Directories are read in order of topic, partition and base offset. All files are shown; with
    --records, a selection or CSV, only logs and KRaft snapshots. PATH may be - for a log or pasted
    bytes on standard input, or pasted bytes as for hex. Damage is reported in place and reading
    continues after it. Internal topic keys and values are decoded.

    \b
    Examples:
      kfmt dump sample_segments/kafka-3.9.1-broker1/txn-0
      kfmt dump sample_segments/kafka-3.9.1-broker1/orders-0 --records --limit 3
      kfmt dump sample_segments/kafka-3.9.1-broker1/txn-0 --bits --limit 1
      kfmt dump sample_segments/kafka-2.8.2/upgraded-0 --records --format json
    """

    records: bool = option(default=False, help="Show records under their batch.")
    bits: bool = option(default=False, help="Draw the attribute bits of each batch.")
    limit: int | None = option(
        *("-n", "--limit"),
        default=None,
        type=click.IntRange(min=1),
        metavar="N",
        help="Stop after N rows.",
    )
    mode: str = option(
        "--bytes",
        default="auto",
        type=click.Choice(["auto", "utf8", "hex", "base64"]),
        help="Encoding of keys, values and headers; auto: text if valid UTF-8, otherwise base64.",
    )
    as_topic: str | None = decoder_topic_option()
    layout: str | None = layout_option()
    all_files: bool = all_files_option()
    columns: str | None = option(
        default=None, help="Show these columns of the batch table, e.g. offsets,size,crc."
    )

    def __post_init__(self) -> None:
        for column_name in self.column_names:
            if column_name not in _batch_column_names():
                raise unknown_name_error("column", column_name, _batch_column_names())
        if self.bits and (self.reads_records or not self.is_for_people):
            raise UsageError("--bits cannot be combined with --records, --format or --json")

    @property
    def reads_records(self) -> bool:
        """Whether records are read, at least to filter batches."""
        record_filter = self.selection_options.selection.record_filter
        return self.records or record_filter.needs_records

    @property
    def is_for_people(self) -> bool:
        """Whether the output format is for people."""
        return load_sink_class(self.format_).is_for_people

    @property
    def column_names(self) -> tuple[str, ...]:
        """Columns of the batch table, empty for all; raises UsageError for another table."""
        if self.columns is None:
            return ()
        if self.reads_records or self.bits or not self.is_for_people:
            raise UsageError("--columns applies only to the batch table")
        return tuple(name.strip() for name in self.columns.split(","))

    @property
    def display_options(self) -> DisplayOptions:
        """How to show rows."""
        return replace(
            super().display_options,
            bytes_mode=self.mode,
            columns=self.column_names,
            bits=self.bits,
        )


def _batch_column_names() -> list[str]:
    from kfmt_cli.render.tables.batch_table import DEFAULT_COLUMNS, EXTRA_COLUMNS

    return [column.name for column in (*DEFAULT_COLUMNS, *EXTRA_COLUMNS)]
