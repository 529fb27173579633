"""Options of sql."""

from __future__ import annotations

import importlib.util
import os
import re

from kfmt_cli.core.urls import strip_file_scheme
from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import ALL_REPLICAS_HELP, TopicOptions
from kfmt_cli.options.declaration import argument, command_options, option
from kfmt_cli.options.parameter_types import parse_input_path
from kfmt_cli.options.payload_options import DecodeOptions

_URL_PREFIX = re.compile(r"[\w+.-]+://")


def _parse_query_or_path(argument_text: str) -> str:
    """A query if `is_query` says so; otherwise a parsed path."""
    return argument_text if is_query(argument_text) else parse_input_path(argument_text)


def is_query(argument_text: str) -> bool:
    """Whether an argument is a query: it contains white space, and is not an existing path."""
    return (
        len(argument_text.split()) > 1
        and not _URL_PREFIX.match(argument_text)
        and not os.path.lexists(strip_file_scheme(argument_text))
    )


@command_options(
    "sql",
    "Query disks in SQL, with DuckDB.",
    common=("format_", "table", "wide", "color", "max_decompressed"),
)
class SqlOptions(DecodeOptions, TopicOptions):
    """Answer questions in SQL about records, batches, indexes and damage.

    The tables are records, batches, segments, index_entries, snapshot_records and findings
    (docs/spark-tables.md). Each topic is also a view of its records, with key_text and value_json:
    the value as JSON, decoded if --value-format is given. value->>'sku' is a field of a JSON value
    in every table. The dialect is DuckDB's. Only the files, columns, offsets and times that a query
    needs are read. Times are in UTC. "offset" needs double quotes. Without QUERY, reads statements
    from standard input, with a prompt on a terminal: .help, .tables, .schema NAME and .quit are
    commands, Ctrl+C cancels a query, Ctrl+D leaves. Needs pip install 'kfmt-cli[sql]'.

    \b
    Examples:
      kfmt sql "select topic, count(*) from records group by 1" sample_segments/kafka-3.9.1-broker1
      kfmt sql "from batches where size > 4000 order by size" sample_segments/kafka-3.9.1-broker1
      kfmt sql "select value->>'sku' as sku from orders" sample_segments/kafka-3.9.1-broker1
      kfmt sql "select severity, file, message from findings" damaged_segments --format csv
    """

    words: tuple[str, ...] = argument("[QUERY] PATH...", nargs=-1, type=_parse_query_or_path)
    all_replicas: bool = option(default=False, help=ALL_REPLICAS_HELP)

    def __post_init__(self) -> None:
        for package in ("duckdb", "pyarrow"):
            if importlib.util.find_spec(package) is None:
                raise UsageError(f"kfmt sql needs {package}: pip install 'kfmt-cli[sql]'")
        if not self.paths:
            raise UsageError("PATH is missing: kfmt sql QUERY PATH...")

    @property
    def directory_topics(self) -> tuple[str, ...]:
        """None: a query reads the files of its tables."""
        return ()

    @property
    def query(self) -> str | None:
        """The statements; None to read them from standard input."""
        return self.words[self._query_index] if self._query_index is not None else None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths."""
        return tuple(word for index, word in enumerate(self.words) if index != self._query_index)

    @property
    def _query_index(self) -> int | None:
        """Where the query is among the words: before or after the paths."""
        candidates = (0, len(self.words) - 1) if self.words else ()
        return next((index for index in candidates if is_query(self.words[index])), None)
