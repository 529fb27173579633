"""Options of dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import GroupedCommand
from kfmt_cli.cli.options import (
    CommonOptions,
    all_files_option,
    common_options,
    layout_option,
    paths_argument,
    topic_option,
)
from kfmt_cli.cli.payload_options import add_payload_format_options
from kfmt_cli.cli.selection_options import add_selection_options
from kfmt_cli.errors import UsageError, unknown_name_error

if TYPE_CHECKING:
    from kfmt_cli.disk.kinds.kind import FileKind
    from kfmt_cli.log.selection.selection import SelectionOptions
    from kfmt_cli.render.sinks.sink import Sink
    from kfmt_cli.topics.payloads import PayloadDeclarations


class DumpClickCommand(GroupedCommand):
    """Lists in its help the files it reads, from the registry of kinds."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kfmt_cli.disk.kinds import KINDS

        super().format_epilog(ctx, formatter)
        with formatter.section("Files"):
            for kind in KINDS:
                for i, name_pattern in enumerate(kind.name_patterns):
                    kind_title = "" if i else kind.name.replace("_", " ")
                    formatter.write(f"  {kind_title:<18} {name_pattern}\n")


@click.command(
    name="dump",
    cls=DumpClickCommand,
    short_help="Show every field of every batch, record or entry.",
)
@paths_argument
@click.option("--records", is_flag=True, help="Show records under their batch.")
@click.option("--bits", is_flag=True, help="Draw the attribute bits of each batch.")
@add_selection_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N rows.")
@click.option(
    "--bytes",
    "mode",
    type=click.Choice(["auto", "utf8", "hex", "base64"]),
    default="auto",
    show_default=True,
    help="Encoding of keys, values and headers; auto: text if valid UTF-8, otherwise base64.",
)
@topic_option
@add_payload_format_options
@layout_option
@all_files_option
@click.option("--columns", help="Show these columns of the batch table, e.g. offsets,size,crc.")
@common_options("wide", "format", "color", "strict", "max-findings", "jobs", "max-decompressed")
def dump(
    paths: tuple[str, ...],
    records: bool,
    bits: bool,
    asked: SelectionOptions,
    limit: int | None,
    mode: str,
    topic: str | None,
    payloads: PayloadDeclarations,
    layout: str | None,
    all_files: bool,
    common: CommonOptions,
    columns: str | None,
) -> None:
    """Show every field of every batch or record, and every entry of any other file.

    Directories are read in order of topic, partition and base offset. All files are shown; with
    --records, a selection or CSV, only logs and KRaft snapshots. Use - for standard input, a log.
    Damage is reported in place and reading continues after it. Internal topic keys and values are
    decoded.

    \b
    Examples:
      kfmt dump sample_segments/kafka-3.9.1-broker1/txn-0
      kfmt dump sample_segments/kafka-3.9.1-broker1/orders-0 --records --limit 3
      kfmt dump sample_segments/kafka-3.9.1-broker1/txn-0 --bits --limit 1
      kfmt dump sample_segments/kafka-2.8.2/upgraded-0 --records --format json
    """
    from kfmt_cli.commands.dump.command import DumpCommand
    from kfmt_cli.disk.kinds.logs import LOG_KINDS
    from kfmt_cli.log.rows_reader import LogRowsReader
    from kfmt_cli.render.output_formats import load_sink_class
    from kfmt_cli.render.sinks.sink import DisplayOptions
    from kfmt_cli.rows.types.record import DECODED_RECORD_ROW, RECORD_ROW

    sink_type = load_sink_class(common.format_)
    records = records or asked.selection.record_filter.needs_records
    column_names = _parse_column_names(columns, records or bits or not sink_type.is_for_people)
    if bits and (records or not sink_type.is_for_people):
        raise UsageError("--bits cannot be combined with --records, --format or --json")
    run = common.start_run(display_options=DisplayOptions(mode, common.wide, column_names, bits))
    record_table_names = (RECORD_ROW.name, DECODED_RECORD_ROW.name)
    records = records or run.sink.display_options.table in record_table_names
    reads_only_logs = _reads_only_logs(run.sink, bool(records or bits or column_names or asked))
    command = DumpCommand(
        run,
        LogRowsReader(records, asked.selection, common.decompression_limit),
        limit,
        common.jobs,
        all_files or not sink_type.is_for_people,
        topic,
        LOG_KINDS if reads_only_logs else None,
        _find_layout_kind(layout),
    )
    command.selection_options = asked
    if payloads and not records:
        raise UsageError("--key-format and --value-format require --records")
    command.decoder = payloads.decoder
    command.dump_paths(paths)


def _reads_only_logs(sink: Sink, selects_rows_of_logs: bool) -> bool:
    """Whether only logs are read; raises UsageError if the requested table is of other files."""
    from kfmt_cli.rows.documents import FINDING_ROW
    from kfmt_cli.rows.types.batch import BATCH_ROW
    from kfmt_cli.rows.types.record import DECODED_RECORD_ROW, RECORD_ROW

    table = sink.display_options.table
    is_log_table = table in ("", BATCH_ROW.name, RECORD_ROW.name, DECODED_RECORD_ROW.name)
    reads_only_logs = selects_rows_of_logs or (is_log_table and not sink.mixes_types)
    if reads_only_logs and not is_log_table and table != FINDING_ROW.name:
        raise UsageError(f"--table {table}: only logs are read with these options")
    return reads_only_logs


def _find_layout_kind(layout: str | None) -> FileKind | None:
    if layout is None:
        return None
    from kfmt_cli.disk.kinds.notes_v0 import NOTES_LAYOUTS

    return NOTES_LAYOUTS[layout][0]


def _parse_column_names(columns: str | None, shows_other_table: bool) -> tuple[str, ...]:
    if columns is None:
        return ()
    from kfmt_cli.render.tables.batch_table import DEFAULT_COLUMNS, EXTRA_COLUMNS

    if shows_other_table:
        raise UsageError("--columns applies only to the batch table")
    known_names = [column.name for column in (*DEFAULT_COLUMNS, *EXTRA_COLUMNS)]
    column_names = tuple(name.strip() for name in columns.split(","))
    for column_name in column_names:
        if column_name not in known_names:
            raise unknown_name_error("column", column_name, known_names)
    return column_names
