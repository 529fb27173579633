"""Options of cat."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import GroupedCommand
from kfmt_cli.cli.options import CommonOptions, common_options, paths_argument
from kfmt_cli.cli.payload_options import add_payload_format_options
from kfmt_cli.cli.selection_options import add_selection_options
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.selection.selection import SelectionOptions
    from kfmt_cli.topics.payloads import PayloadDeclarations


class CatClickCommand(GroupedCommand):
    """Lists the tokens of a format string in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kfmt_cli.commands.cat.record_format import FORMAT_TOKENS

        super().format_epilog(ctx, formatter)
        with formatter.section("Format"):
            formatter.write_dl([(f"%{name}", text) for name, (text, _) in FORMAT_TOKENS.items()])
            formatter.write_text("Escapes: \\n, \\r, \\t, \\0, \\\\ and \\xHH.")


DEFAULT_FORMAT = "%s\\n"


@click.command(cls=CatClickCommand, short_help="Stream records for other programs, like kcat.")
@paths_argument
@click.option("-f", "--form", help=f"Format string for each record. [default: {DEFAULT_FORMAT}]")
@click.option(
    "--json", "json_", is_flag=True, help="Write the JSON objects of kcat -J, without type."
)
@click.option("--null", default="NULL", show_default=True, help="Text to write for null.")
@add_selection_options
@click.option(
    "--latest",
    is_flag=True,
    help="Of these records, only the latest of each key in each partition. Records without a key, "
    "and keys whose latest record is a tombstone, are skipped. Reads everything twice; needs up to "
    "64 bytes of memory per key.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@add_payload_format_options
@click.option(
    "--follow", is_flag=True, help="Keep reading as the broker appends, until interrupted."
)
@common_options("color", "strict", "max-findings", "max-decompressed")
def cat(
    paths: tuple[str, ...],
    form: str | None,
    null: str,
    asked: SelectionOptions,
    latest: bool,
    limit: int | None,
    payloads: PayloadDeclarations,
    json_: bool,
    follow: bool,
    common: CommonOptions,
) -> None:
    """Write records as a stream for other programs, like kcat.

    Batches that fail their checksum are skipped and reported. Control records are skipped.

    \b
    Examples:
      kfmt cat sample_segments/kafka-3.9.1-broker1/orders-0 -f '%o %T %k %s\\n' --limit 3
      kfmt cat sample_segments/kafka-3.9.1-broker1/orders-0 --key customer-1 --json --limit 2
      kfmt cat sample_segments/kafka-3.9.1-broker1/compacted-0 --latest -f '%k %s\\n' --limit 3
      kfmt cat sample_segments/kafka-3.9.1-broker1/txn-0 --isolation read_committed --limit 5
    """
    from kfmt_cli.commands.cat.command import CatCommand
    from kfmt_cli.commands.cat.record_format import compile_format, format_kcat_json

    if json_ and form is not None:
        raise UsageError("--json cannot be combined with --form")
    if latest and asked.n_last_records is not None:
        raise UsageError("--latest cannot be combined with --last")
    asked = replace(asked, only_latest=latest)
    if follow and (len(paths) > 1 or asked.needs_logs):
        raise UsageError(
            "--follow needs exactly one PATH, and cannot be combined with --last, --latest or "
            "--isolation read_committed"
        )
    run = common.start_run()
    format_record = (
        format_kcat_json
        if json_
        else compile_format(DEFAULT_FORMAT if form is None else form, os.fsencode(null))
    )
    command = CatCommand(
        run, format_record, asked, *payloads.readers, follow, limit, common.decompression_limit
    )
    command.write_paths(paths)
