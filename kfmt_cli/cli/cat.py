"""cat: records as a stream for other programs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.options import (
    Common,
    color,
    common,
    max_decompressed,
    max_findings,
    paths,
    strict,
)
from kfmt_cli.cli.payload_options import bytes_of, payload_formats
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.matching import Pattern
    from kfmt_cli.topics.payloads import Read


UNCOMMITTED = "read_uncommitted"


class CatCommand(click.Command):
    """Lists the tokens of a format string in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from kfmt_cli.render.record_format import TOKENS

        super().format_epilog(ctx, formatter)
        with formatter.section("Format"):
            formatter.write_dl([(f"%{name}", words) for name, words in TOKENS.items()])
            formatter.write_text("and \\n, \\r, \\t, \\0, \\\\ and \\xHH for bytes.")


@click.command(cls=CatCommand)
@paths
@click.option("-f", "--form", default="%s\\n", show_default=True, help="How to write a record.")
@click.option("--null", default="NULL", show_default=True, help="What is written for null.")
@click.option("--key", help="Only this key: text, or hex:… or base64:….")
@click.option("--key-regex", metavar="RE", help="Only keys in which this is found.")
@click.option("--value", help="Only this value, given as a key is.")
@click.option("--value-regex", metavar="RE", help="Only values in which this is found.")
@click.option("--header", multiple=True, metavar="NAME[=VALUE]", help="Only with this header.")
@click.option(
    "--header-regex",
    multiple=True,
    metavar="NAME=RE",
    help="Only with a header of this name in whose value this is found.",
)
@click.option("--from-offset", type=int, help="Skip what comes before this offset.")
@click.option("--to-offset", type=int, help="Leave out what comes after this offset.")
@click.option("--from-time", help="Leave out what is older: milliseconds, or 2026-11-20T15:24.")
@click.option("--to-time", help="Leave out what is younger.")
@click.option("--producer-id", type=int, help="Only records of this producer.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many records.")
@payload_formats
@click.option(
    "--isolation",
    type=click.Choice([UNCOMMITTED, "read_committed"]),
    default=UNCOMMITTED,
    show_default=True,
    help="read_committed: neither aborted transactions nor anything after an open one.",
)
@click.option("--follow", is_flag=True, help="Go on with what a broker adds, until interrupted.")
@common(color, strict, max_findings, max_decompressed)
def cat(
    paths: tuple[str, ...],
    form: str,
    null: str,
    key: str | None,
    key_regex: str | None,
    value: str | None,
    value_regex: str | None,
    header: tuple[str, ...],
    header_regex: tuple[str, ...],
    from_offset: int | None,
    to_offset: int | None,
    from_time: str | None,
    to_time: str | None,
    producer_id: int | None,
    limit: int | None,
    payloads: tuple[tuple[str, Read] | None, tuple[str, Read] | None],
    isolation: str,
    follow: bool,
    common: Common,
) -> int:
    """Write records as a stream for other programs, in the manner of kcat.

    Batches whose checksum is wrong are left out and reported; control records are left out, too.

    \b
    Examples:
      kfmt cat sample_segments/kafka-3.9.1-broker1/orders-0 -f '%o %T %k %s\\n' --limit 3
      kfmt cat sample_segments/kafka-3.9.1-broker1/orders-0 --key-regex 'customer-1$' -f '%o\\n'
      kfmt cat sample_segments/kafka-3.9.1-broker1/txn-0 --isolation read_committed --limit 5
    """
    from kfmt_cli.commands.cat import Cat
    from kfmt_cli.log.matching import Match
    from kfmt_cli.log.select import Selection
    from kfmt_cli.render.record_format import writer

    if follow and (len(paths) > 1 or isolation != UNCOMMITTED):
        raise UsageError("--follow continues with one partition, and with every record of it")
    match = Match(
        *(_pattern(key, key_regex, "key"), _pattern(value, value_regex, "value")),
        *((*map(_header, header), *map(_header_regex, header_regex)), producer_id),
    )
    run = common.run()
    Cat(
        run,
        writer(form, os.fsencode(null)),
        Selection(from_offset, to_offset, *map(_time, (from_time, to_time))),
        match,
        *payloads,
        isolation != UNCOMMITTED,
        follow,
        limit,
        common.limit,
    ).paths(paths)
    return run.host.exit_code


def _time(text: str | None) -> int | None:
    from kfmt_cli.core.times import milliseconds

    return None if text is None else milliseconds("--from-time or --to-time", text)


def _pattern(exact: str | None, regex: str | None, name: str) -> Pattern | None:
    if exact is not None and regex is not None:
        raise UsageError(f"--{name} and --{name}-regex: one of them")
    if exact is not None:
        return bytes_of(exact)
    return None if regex is None else _regex(regex)


def _regex(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from None


def _header(text: str) -> tuple[bytes, Pattern | None]:
    name, equals, value = text.partition("=")
    return os.fsencode(name), bytes_of(value) if equals else None


def _header_regex(text: str) -> tuple[bytes, Pattern | None]:
    name, _, regex = text.partition("=")
    return os.fsencode(name), _regex(regex)
