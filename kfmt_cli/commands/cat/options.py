"""Options of cat."""

from __future__ import annotations

import click

from kfmt_cli.core.lazy import import_object
from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import TopicFilterOptions
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.payload_options import PayloadOptions
from kfmt_cli.options.selection import READ_COMMITTED, RecordSelectionOptions

DEFAULT_FORMAT = "%s\\n"


def _write_format_tokens(formatter: click.HelpFormatter) -> None:
    """List the tokens of a format string."""
    format_tokens = import_object("kfmt_cli.commands.cat.record_format:FORMAT_TOKENS")
    with formatter.section("Format"):
        formatter.write_dl([(f"%{name}", text) for name, (text, _) in format_tokens.items()])
        formatter.write_text("Escapes: \\n, \\r, \\t, \\0, \\\\ and \\xHH.")


@command_options(
    "cat",
    "Stream records for other programs, like kcat.",
    common=("color", "strict", "given_findings", "max_decompressed"),
    write_epilog=_write_format_tokens,
)
class CatOptions(PayloadOptions, RecordSelectionOptions, TopicFilterOptions):
    """Write records as a stream for other programs, like kcat.

    Batches that fail their checksum are skipped and reported. Control records are skipped.

    \b
    Examples:
      kfmt cat sample_segments/kafka-3.9.1-broker1/orders-0 -f '%o %T %k %s\\n' --limit 3
      kfmt cat sample_segments/kafka-3.9.1-broker1/orders-0 --key customer-1 --json --limit 2
      kfmt cat sample_segments/kafka-3.9.1-broker1/compacted-0 --latest -f '%k %s\\n' --limit 3
      kfmt cat sample_segments/kafka-3.9.1-broker1/txn-0 --isolation read_committed --limit 5
    """

    form: str | None = option(
        "-f",
        "--form",
        default=None,
        help=f"Format string for each record. [default: {DEFAULT_FORMAT}]",
    )
    json_: bool = option(
        "--json", default=False, help="Write the JSON objects of kcat -J, without type."
    )
    null: str = option(default="NULL", help="Text to write for null.")
    latest: bool = option(
        default=False,
        help="Only the latest of these records for each key in each partition. Records without a "
        "key, and keys whose latest record is a tombstone, are skipped. Reads everything twice; "
        "needs up to 64 bytes of memory per key.",
    )
    limit: int | None = option(
        *("-n", "--limit"),
        default=None,
        type=click.IntRange(min=1),
        metavar="N",
        help="Stop after N records.",
    )
    follow: bool = option(
        default=False, help="Keep reading as the broker appends, until interrupted."
    )

    def __post_init__(self) -> None:
        if self.json_ and self.form is not None:
            raise UsageError("--json cannot be combined with --form")
        if self.latest and self.last is not None:
            raise UsageError("--latest cannot be combined with --last")
        needs_logs = self.latest or self.last is not None or self.isolation == READ_COMMITTED
        if self.follow and (len(self.paths) > 1 or needs_logs):
            raise UsageError(
                "--follow needs exactly one PATH, and cannot be combined with --last, --latest or "
                "--isolation read_committed"
            )
