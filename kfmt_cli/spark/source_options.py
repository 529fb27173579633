"""Parses the options of the data source, or of a job, into a request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.credentials import redact_credentials, strip_credentials
from kfmt_cli.core.times import parse_time_ms
from kfmt_cli.disk.tiered_keys import read_key_file
from kfmt_cli.errors import UsageError, unknown_name_question
from kfmt_cli.execution.read_request import (
    DEFAULT_ARROW_BATCH_ROWS,
    DEFAULT_MAX_SPLIT_BYTES,
    ReadRequest,
    parse_name_list,
)
from kfmt_cli.log.selection.record_filter import parse_record_filter
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.rows.table_types import (
    LAKE_TABLES,
    TABLES,
    find_column,
    has_records,
    with_replica_columns,
)

OPTION_DESCRIPTIONS = {
    "table": "segments, batches, records (the default), index_entries or findings",
    "path, paths": "input for `load`: files or directories, local or in an object store",
    "columns": "comma-separated names; other columns are not computed",
    "firstOffset, lastOffset": "offsets, both included",
    "firstTime, lastTime": "ISO-8601 (UTC without a zone) or milliseconds, both included",
    "key, value, header": (
        "record filter: text, ~REGEX, or a prefixed value such as int:5 or hex:…; for a header, "
        "NAME or NAME=VALUE"
    ),
    "producerId": "only records from this producer id",
    "last": "start at the N-th last of these records in each partition",
    "topics": "comma-separated names",
    "allReplicas": (
        "true: records and batches of every replica of a partition; by default, each is read once, "
        "from the best one"
    ),
    "isolation": "read_uncommitted (the default) or read_committed",
    "maxSplitBytes": "file bytes per task (default 128 MiB)",
    "batchRows": "rows per Arrow batch (default 32768)",
    "mode": "PERMISSIVE (the default): damage becomes findings; FAILFAST: it stops the query",
    "ignoreUnreadable": (
        "true: a file or directory that cannot be read becomes a finding; by default, it stops the "
        "query"
    ),
    "deep": "true: `findings` and `segments` also decode every record",
    "filterPushdown": (
        "true: push WHERE filters down so that excluded data is not read. Needs Spark 4.1, "
        "spark.sql.python.filterPushdown.enabled, and a separate `load` per query"
    ),
    "maxDecompressed": "maximum decompressed size of one batch, in bytes",
    "maxBytesPerTrigger": "streams: approximate bytes per trigger; Spark 4.2 and later",
    "rowsPerTrigger": (
        "streams: at most this many offsets per trigger, but at least a batch; Spark 4.2 and later"
    ),
    "startingOffsets": "streams: earliest (the default) or latest",
    "failOnDataLoss": (
        "streams: true (the default): lost offsets, a deleted topic or a failed listing stop the "
        "query; false: a warning is logged and the rest is read"
    ),
    "rsmPrivateKey": (
        "private key file (PKCS #8) on the driver, for segments encrypted by Aiven's tiered storage"
    ),
}
# Names that the options for bounds had before.
OPTION_BY_FORMER_NAME = {
    "startoffset": "firstoffset",
    "endoffset": "lastoffset",
    "starttime": "firsttime",
    "endtime": "lasttime",
}


# The allowed values of numeric options.
MAX_OPTION_NUMBER = (1 << 63) - 1
MIN_BY_OPTION = {
    **dict.fromkeys(("firstoffset", "lastoffset", "producerid"), 0),
    **dict.fromkeys(("last", "maxsplitbytes", "batchrows", "parallelism", "maxdecompressed"), 1),
    **dict.fromkeys(("maxbytespertrigger", "rowspertrigger"), 1),
}
DOC_NAME_BY_OPTION = {
    name.lower(): name for names in OPTION_DESCRIPTIONS for name in names.split(", ")
}
FALSE_OR_TRUE, TRUE_OR_FALSE = ("false", "true"), ("true", "false")


def parse_request(options: Mapping[str, str]) -> ReadRequest:
    """The request from Spark options; raises UsageError."""
    canonical_options = _canonical_options(options)
    table_name = canonical_options.get("table", "records")
    if table_name not in TABLES:
        raise UsageError(
            f"kfmt: no table {table_name!r}{_format_suggestions(table_name, list(TABLES))}"
        )
    isolation = _parse_choice(
        canonical_options, "isolation", ("read_uncommitted", "read_committed")
    )
    mode = _parse_choice(canonical_options, "mode", ("permissive", "failfast"))
    max_decompressed = _parse_number(canonical_options, "maxdecompressed")
    return ReadRequest(
        table=table_name,
        paths=_parse_paths(canonical_options),
        columns=_parse_columns(canonical_options, table_name),
        selection_options=SelectionOptions(
            _parse_selection(canonical_options),
            _parse_number(canonical_options, "last"),
            isolation == "read_committed",
        ),
        topics=frozenset(parse_name_list(canonical_options.get("topics", ""))),
        max_split_bytes=_parse_number(canonical_options, "maxsplitbytes")
        or DEFAULT_MAX_SPLIT_BYTES,
        arrow_batch_rows=_parse_number(canonical_options, "batchrows") or DEFAULT_ARROW_BATCH_ROWS,
        fail_fast=mode == "failfast",
        raises_if_unreadable=_parse_choice(canonical_options, "ignoreunreadable", FALSE_OR_TRUE)
        == "false",
        reads_all_replicas=_reads_all_replicas(canonical_options, table_name),
        decodes_records=_parse_choice(canonical_options, "deep", FALSE_OR_TRUE) == "true",
        uses_pushdown=_parse_choice(canonical_options, "filterpushdown", FALSE_OR_TRUE) == "true",
        parallelism=_parse_number(canonical_options, "parallelism") or os.cpu_count() or 1,
        decompression_limit=DecompressionLimit.from_option(max_decompressed),
        private_key=read_key_file(canonical_options["rsmprivatekey"])
        if "rsmprivatekey" in canonical_options
        else None,
    )


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options that only a stream has."""

    max_bytes_per_trigger: int | None = None
    """Bytes per trigger."""
    max_rows_per_trigger: int | None = None
    """Offsets per trigger."""
    starts_at_latest: bool = False
    fails_on_data_loss: bool = True


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream; raises UsageError."""
    canonical_options = _canonical_options(options)
    return StreamOptions(
        _parse_number(canonical_options, "maxbytespertrigger"),
        _parse_number(canonical_options, "rowspertrigger"),
        _parse_choice(canonical_options, "startingoffsets", ("earliest", "latest")) == "latest",
        _parse_choice(canonical_options, "failondataloss", TRUE_OR_FALSE) == "true",
    )


def require_paths(request: ReadRequest) -> ReadRequest:
    """The request, if it has paths; raises UsageError."""
    if not request.paths:
        raise UsageError("kfmt: no path: give `load` a file or a directory")
    return request


def _canonical_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their canonical names; raises UsageError for an unknown or repeated one,
    and for a choice or number that is not allowed, also in options that only a stream uses."""
    value_by_name: dict[str, str] = {}
    for option_name, option_value in options.items():
        canonical_name = _canonical_name(option_name)
        if canonical_name not in DOC_NAME_BY_OPTION and canonical_name != "parallelism":
            raise UsageError(
                "kfmt: no option "
                f"{canonical_name!r}{_format_suggestions(canonical_name, list(DOC_NAME_BY_OPTION))}"
            )
        if canonical_name in value_by_name and value_by_name[canonical_name] != option_value:
            both_values = redact_credentials(
                f"{value_by_name[canonical_name]!r} and {option_value!r}"
            )
            raise UsageError(
                f"kfmt: option {_documented_name(canonical_name)} is given twice, as {both_values}"
            )
        value_by_name[canonical_name] = option_value
    for option_name in MIN_BY_OPTION:
        _parse_number(value_by_name, option_name)
    _parse_choice(value_by_name, "startingoffsets", ("earliest", "latest"))
    _parse_choice(value_by_name, "failondataloss", TRUE_OR_FALSE)
    return value_by_name


def _format_suggestions(unknown_name: str, known_names: Sequence[str]) -> str:
    """The end of a message about an unknown name: the nearest ones, or all."""
    all_names = f"; choose from {', '.join(map(_documented_name, known_names))}"
    return unknown_name_question(unknown_name, known_names, all_names, _documented_name)


def _documented_name(option_name: str) -> str:
    """The name of an option as it is documented; another name as it is."""
    return DOC_NAME_BY_OPTION.get(option_name, option_name)


def _parse_paths(options: Mapping[str, str]) -> tuple[str, ...]:
    """The paths; none if neither option is set. Raises UsageError."""
    path_values: list[object] = []
    if "paths" in options:
        try:
            json_paths = json.loads(options["paths"])
        except ValueError:
            json_paths = None
        if not isinstance(json_paths, list) or not json_paths:
            raise UsageError(
                f"kfmt: option paths is {redact_credentials(options['paths'])!r}, not a JSON list "
                "of at least one path"
            )
        path_values += json_paths
    if "path" in options:
        path_values.append(options["path"])
    valid_paths = tuple(path for path in path_values if isinstance(path, str) and path.strip())
    if len(valid_paths) < len(path_values):
        invalid_path = next(path for path in path_values if path not in valid_paths)
        raise UsageError(f"kfmt: {invalid_path!r} is not a path")
    return tuple(map(strip_credentials, valid_paths))


def _parse_columns(options: Mapping[str, str], table_name: str) -> tuple[str, ...]:
    """The names of the columns; raises UsageError for one that is unknown or repeated."""
    column_names = parse_name_list(options.get("columns", ""))
    column_by_name = TABLES[table_name].leaf_by_name
    for i, column_name in enumerate(column_names):
        if find_column(table_name, column_name) is None:
            question = unknown_name_question(column_name, column_by_name)
            raise UsageError(f"kfmt: table {table_name} has no column {column_name!r}{question}")
        if column_name in column_names[:i]:
            raise UsageError(f"kfmt: option columns has {column_name!r} twice")
    if not column_names and has_records(table_name) and _reads_all_replicas(options, table_name):
        return with_replica_columns(table_name)
    return column_names


def _reads_all_replicas(options: Mapping[str, str], table_name: str) -> bool:
    """Whether each record is read from all replicas; tables of files always have all files."""
    return (
        table_name not in LAKE_TABLES
        or _parse_choice(options, "allreplicas", FALSE_OR_TRUE) == "true"
    )


def _parse_selection(options: Mapping[str, str]) -> Selection:
    header_filters = (options["header"],) if "header" in options else ()
    record_filter = parse_record_filter(
        options.get("key"),
        options.get("value"),
        header_filters,
        _parse_number(options, "producerid"),
    )
    offset_bounds = _parse_number(options, "firstoffset"), _parse_number(options, "lastoffset")
    return Selection(
        *offset_bounds,
        _parse_time_option_ms(options, "firsttime"),
        _parse_time_option_ms(options, "lasttime"),
        record_filter,
    )


def _canonical_name(option_name: str) -> str:
    """The canonical name of an option, which may be in any case and contain underscores."""
    canonical_name = option_name.lower().replace("_", "")
    return OPTION_BY_FORMER_NAME.get(canonical_name, canonical_name)


def _parse_choice(options: Mapping[str, str], option_name: str, choices: tuple[str, ...]) -> str:
    choice = options.get(option_name, choices[0]).lower()
    if choice not in choices:
        problem = f"{options[option_name]!r}, not {' or '.join(choices)}"
        raise UsageError(f"kfmt: option {_documented_name(option_name)} is {problem}")
    return choice


def _parse_number(options: Mapping[str, str], option_name: str) -> int | None:
    """The value of an option, None without it; raises UsageError if it is not allowed."""
    if option_name not in options:
        return None
    value_text, minimum = options[option_name], MIN_BY_OPTION[option_name]
    try:
        number = int(value_text)
    except ValueError:
        raise UsageError(
            f"kfmt: option {_documented_name(option_name)} is {value_text!r}, not a number"
        ) from None
    if not minimum <= number <= MAX_OPTION_NUMBER:
        problem = f"is {number}, not a number from {minimum} to {MAX_OPTION_NUMBER}"
        raise UsageError(f"kfmt: option {_documented_name(option_name)} {problem}")
    return number


def _parse_time_option_ms(options: Mapping[str, str], option_name: str) -> int | None:
    time_text = options.get(option_name)
    return None if time_text is None else parse_time_ms(option_name, time_text)
