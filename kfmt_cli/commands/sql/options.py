"""Options of sql."""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, parse_input_path, private_key_option
from kfmt_cli.core.urls import strip_file_scheme
from kfmt_cli.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kfmt_cli.commands.sql.command import SqlCommand


_URL_PREFIX = re.compile(r"[\w+.-]+://")


def _parse_query_or_path(argument: str) -> str:
    """A query if `is_query` says so; otherwise a parsed path."""
    return argument if is_query(argument) else parse_input_path(argument)


def is_query(argument: str) -> bool:
    """Whether an argument is a query: it contains white space, and is not an existing path."""
    return (
        len(argument.split()) > 1
        and not _URL_PREFIX.match(argument)
        and not os.path.lexists(strip_file_scheme(argument))
    )


@grouped_command(short_help="Query disks in SQL, with DuckDB.")
@click.argument(
    "words", nargs=-1, required=True, metavar="[QUERY] PATH...", type=_parse_query_or_path
)
@private_key_option
@common_options("format", "wide", "color", "max-decompressed")
def sql(words: tuple[str, ...], common: CommonOptions) -> None:
    """Answer questions in SQL about records, batches, indexes and damage.

    The tables are records, batches, segments, index_entries, snapshot_records and findings
    (docs/spark-tables.md); the dialect is DuckDB's. Only the files, columns, offsets and times that
    a query needs are read. Times are in UTC. "offset" needs double quotes. Without QUERY, reads
    statements from standard input, with a prompt on a terminal: .tables, .schema NAME and .quit are
    commands, Ctrl+C cancels a query, Ctrl+D leaves. Needs pip install 'kfmt-cli[sql]'.

    \b
    Examples:
      kfmt sql "select topic, count(*) from records group by 1" sample_segments/kafka-3.9.1-broker1
      kfmt sql "from batches where size > 4000 order by size" sample_segments/kafka-3.9.1-broker1
      kfmt sql "select severity, file, message from findings" damaged_segments --format csv
    """
    from importlib.util import find_spec

    for package in ("duckdb", "pyarrow"):
        if find_spec(package) is None:
            raise UsageError(f"kfmt sql needs {package}: pip install 'kfmt-cli[sql]'")
    from kfmt_cli.commands.sql.sql_prompt import SqlPrompt

    query, paths = (words[0], words[1:]) if is_query(words[0]) else (None, words)
    if not paths:
        raise UsageError("PATH is missing: kfmt sql QUERY PATH...")
    with closing(_open_session(common, paths)) as session:
        if query is None:
            SqlPrompt(session).run()
        else:
            session.run_statements(query)


def _open_session(common: CommonOptions, paths: tuple[str, ...]) -> SqlCommand:
    """A session on the existing paths; reports missing ones. Exits if no path exists."""
    from kfmt_cli.commands.python.read import require_existing_path
    from kfmt_cli.commands.sql.command import SqlCommand
    from kfmt_cli.disk.input_paths import reject_stdin
    from kfmt_cli.disk.path_resolution import prepare_listable_path

    reject_stdin(*paths)
    run, existing_paths = common.start_run(), []
    for path in paths:
        with run.catch_input_errors():
            existing_paths.append(require_existing_path(prepare_listable_path(path)))
    if not existing_paths:
        raise click.exceptions.Exit(ExitCode.UNREADABLE)
    return SqlCommand(run, tuple(existing_paths), common.decompression_limit)
