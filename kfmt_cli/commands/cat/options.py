"""Options of cat."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import GroupedCommand
from kfmt_cli.cli.options import Common, common, paths
from kfmt_cli.cli.payload_options import payload_formats
from kfmt_cli.cli.selection_options import selection
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.selection.select import Asked
    from kfmt_cli.topics.payloads import Payloads


class CatCommand(GroupedCommand):
    """Lists the tokens of a format string in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kfmt_cli.commands.cat.record_format import TOKENS

        super().format_epilog(ctx, formatter)
        with formatter.section("Format"):
            formatter.write_dl([(f"%{name}", words) for name, (words, _) in TOKENS.items()])
            formatter.write_text("Escapes: \\n, \\r, \\t, \\0, \\\\ and \\xHH.")


PLAIN = "%s\\n"


@click.command(cls=CatCommand, short_help="Stream records for other programs, like kcat.")
@paths
@click.option("-f", "--form", help=f"Format string for each record. [default: {PLAIN}]")
@click.option(
    "--json", "json_", is_flag=True, help="Write the JSON objects of kcat -J, without type."
)
@click.option("--null", default="NULL", show_default=True, help="Text to write for null.")
@selection
@click.option(
    "--latest",
    is_flag=True,
    help="Of these records, only the latest of each key in each partition. Records without a key, "
    "and keys whose latest record is a tombstone, are skipped. Reads everything twice; needs up to "
    "64 bytes of memory per key.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@payload_formats
@click.option(
    "--follow", is_flag=True, help="Keep reading as the broker appends, until interrupted."
)
@common("color", "strict", "max-findings", "max-decompressed")
def cat(
    paths: tuple[str, ...],
    form: str | None,
    null: str,
    asked: Asked,
    latest: bool,
    limit: int | None,
    payloads: Payloads,
    json_: bool,
    follow: bool,
    common: Common,
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
    from kfmt_cli.commands.cat.command import Cat
    from kfmt_cli.commands.cat.record_format import kcat_json, writer

    if json_ and form is not None:
        raise UsageError("--json cannot be combined with --form")
    if latest and asked.last is not None:
        raise UsageError("--latest cannot be combined with --last")
    asked = replace(asked, latest=latest)
    if follow and (len(paths) > 1 or asked.needs_logs):
        raise UsageError(
            "--follow needs exactly one PATH, and cannot be combined with --last, --latest or "
            "--isolation read_committed"
        )
    run = common.run()
    write = kcat_json if json_ else writer(PLAIN if form is None else form, os.fsencode(null))
    task = Cat(run, write, asked, *payloads.readers, follow, limit, common.limit)
    task.paths(paths)
