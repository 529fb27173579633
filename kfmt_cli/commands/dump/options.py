"""Options of dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import GroupedCommand
from kfmt_cli.cli.options import Common, all_files, common, layout, paths, topic
from kfmt_cli.cli.payload_options import payload_formats
from kfmt_cli.cli.selection_options import selection
from kfmt_cli.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from kfmt_cli.disk.kinds.kind import Kind
    from kfmt_cli.log.selection.select import Asked
    from kfmt_cli.topics.payloads import Payloads


class DumpCommand(GroupedCommand):
    """Lists in its help the files it reads, from the registry of kinds."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kfmt_cli.disk.kinds import KINDS

        super().format_epilog(ctx, formatter)
        with formatter.section("Files"):
            for kind in KINDS:
                for i, name in enumerate(kind.named):
                    title = "" if i else kind.name.replace("_", " ")
                    formatter.write(f"  {title:<18} {name}\n")


@click.command(
    name="dump", cls=DumpCommand, short_help="Show every field of every batch, record or entry."
)
@paths
@click.option("--records", is_flag=True, help="Show records under their batch.")
@click.option("--bits", is_flag=True, help="Draw the attribute bits of each batch.")
@selection
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N rows.")
@click.option(
    "--bytes",
    "mode",
    type=click.Choice(["auto", "utf8", "hex", "base64"]),
    default="auto",
    show_default=True,
    help="Encoding of keys, values and headers; auto: text if valid UTF-8, otherwise base64.",
)
@topic
@payload_formats
@layout
@all_files
@click.option("--columns", help="Show these columns of the batch table, e.g. offsets,size,crc.")
@common("wide", "format", "color", "strict", "max-findings", "jobs", "max-decompressed")
def dump(
    paths: tuple[str, ...],
    records: bool,
    bits: bool,
    asked: Asked,
    limit: int | None,
    mode: str,
    topic: str | None,
    payloads: Payloads,
    layout: str | None,
    all_files: bool,
    common: Common,
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
    from kfmt_cli.commands.dump.command import Dump
    from kfmt_cli.disk.kinds.logs import LOGS
    from kfmt_cli.log.reading import RowsReading
    from kfmt_cli.render.formats import sink_named
    from kfmt_cli.render.sinks.sink import Look
    from kfmt_cli.rows.documents import FINDING
    from kfmt_cli.rows.types.batch import BATCH
    from kfmt_cli.rows.types.record import DECODED_RECORD, RECORD

    sink = sink_named(common.format_)
    records = records or asked.wanted.match.of_records
    names = _column_names(columns, records or bits or not sink.for_people)
    if bits and (records or not sink.for_people):
        raise UsageError("--bits cannot be combined with --records, --format or --json")
    look = Look(mode, common.wide, names, bits)
    run = common.run(look=look)
    table, of_records = run.sink.look.table, (RECORD.name, DECODED_RECORD.name)
    records = records or table in of_records
    reading = RowsReading(records, asked.wanted, common.limit)
    of_logs = table in ("", BATCH.name, *of_records)
    only_logs = records or bits or names or asked or (of_logs and not sink.mixes_types)
    if only_logs and not of_logs and table != FINDING.name:
        raise UsageError(f"--table {table}: only logs are read with these options")
    every = all_files or not sink.for_people
    kinds = LOGS if only_logs else None
    task = Dump(run, reading, limit, common.jobs, every, topic, kinds, _kind_of(layout))
    task.asked = asked
    if payloads and not records:
        raise UsageError("--key-format and --value-format require --records")
    task.decoder = payloads.decoder
    task.paths(paths)


def _kind_of(layout: str | None) -> Kind | None:
    if layout is None:
        return None
    from kfmt_cli.disk.kinds.notes import LAYOUTS

    return LAYOUTS[layout][0]


def _column_names(columns: str | None, elsewhere: bool) -> tuple[str, ...]:
    if columns is None:
        return ()
    from kfmt_cli.render.tables.batch_table import DEFAULT, MORE

    if elsewhere:
        raise UsageError("--columns applies only to the batch table")
    known = [column.name for column in (*DEFAULT, *MORE)]
    names = tuple(name.strip() for name in columns.split(","))
    for name in names:
        if name not in known:
            raise unknown_name("column", name, known)
    return names
