"""Requests from the options of Spark or of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.credentials import hidden, without_credentials
from kfmt_cli.core.times import milliseconds
from kfmt_cli.disk.tiered_keys import key_bytes
from kfmt_cli.errors import UsageError
from kfmt_cli.log.selection.record_match import match_of
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.rows.table_types import TABLES
from kfmt_cli.sharing.request import BATCH_ROWS, SPLIT, Request, names_in

OPTIONS = {
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
# Former names of bounds.
FORMER = {
    "startoffset": "firstoffset",
    "endoffset": "lastoffset",
    "starttime": "firsttime",
    "endtime": "lasttime",
}


# The values that options with numbers allow.
MOST = (1 << 63) - 1
NUMBERS = {
    **dict.fromkeys(("firstoffset", "lastoffset", "producerid"), 0),
    **dict.fromkeys(("last", "maxsplitbytes", "batchrows", "parallelism", "maxdecompressed"), 1),
    **dict.fromkeys(("maxbytespertrigger", "rowspertrigger"), 1),
}
SPELLED = {name.lower(): name for names in OPTIONS for name in names.split(", ")}
FALSE_OR_TRUE, TRUE_OR_FALSE = ("false", "true"), ("true", "false")


def request_of(options: Mapping[str, str]) -> Request:
    """The request from Spark options; raises UsageError."""
    given = _checked(options)
    table = given.get("table", "records")
    if table not in TABLES:
        raise UsageError(f"kfmt: no table {table!r}{_near(table, list(TABLES))}")
    isolation = _choice(given, "isolation", ("read_uncommitted", "read_committed"))
    mode = _choice(given, "mode", ("permissive", "failfast"))
    limit = _number(given, "maxdecompressed")
    return Request(
        table=table,
        paths=_paths(given),
        columns=_columns(given, table),
        asked=Asked(_wanted(given), _number(given, "last"), isolation == "read_committed"),
        topics=frozenset(names_in(given.get("topics", ""))),
        max_split=_number(given, "maxsplitbytes") or SPLIT,
        batch_rows=_number(given, "batchrows") or BATCH_ROWS,
        fail_fast=mode == "failfast",
        raises_unreadable=_choice(given, "ignoreunreadable", FALSE_OR_TRUE) == "false",
        deep=_choice(given, "deep", FALSE_OR_TRUE) == "true",
        pushdown=_choice(given, "filterpushdown", FALSE_OR_TRUE) == "true",
        parallelism=_number(given, "parallelism") or os.cpu_count() or 1,
        limit=Limit.of_option(limit),
        private_key=key_bytes(given["rsmprivatekey"]) if "rsmprivatekey" in given else None,
    )


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options that only a stream has."""

    most_bytes: int | None = None
    """Bytes per trigger."""
    most_rows: int | None = None
    """Offsets per trigger."""
    starts_at_latest: bool = False
    fails_on_data_loss: bool = True


def stream_of(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream; raises UsageError."""
    given = _checked(options)
    return StreamOptions(
        _number(given, "maxbytespertrigger"),
        _number(given, "rowspertrigger"),
        _choice(given, "startingoffsets", ("earliest", "latest")) == "latest",
        _choice(given, "failondataloss", TRUE_OR_FALSE) == "true",
    )


def need_paths(request: Request) -> Request:
    """The request, if it has paths; raises UsageError."""
    if not request.paths:
        raise UsageError("kfmt: no path: give `load` a file or a directory")
    return request


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their canonical names; raises UsageError for an unknown one, one given twice,
    and a choice or number that is not allowed, also in options that only a stream uses."""
    given: dict[str, str] = {}
    for name, value in options.items():
        plain = _plain(name)
        if plain not in SPELLED and plain != "parallelism":
            raise UsageError(f"kfmt: no option {plain!r}{_near(plain, list(SPELLED))}")
        if plain in given and given[plain] != value:
            both = hidden(f"{given[plain]!r} and {value!r}")
            raise UsageError(f"kfmt: option {_spelled(plain)} is given twice, as {both}")
        given[plain] = value
    for name in NUMBERS:
        _number(given, name)
    _choice(given, "startingoffsets", ("earliest", "latest"))
    _choice(given, "failondataloss", TRUE_OR_FALSE)
    return given


def _near(name: str, names: Sequence[str]) -> str:
    """The end of a message about an unknown name: the nearest ones, or all."""
    if near := get_close_matches(name, names, 2, 0.6):
        return f"; did you mean {' or '.join(map(_spelled, near))}?"
    return f"; choose from {', '.join(map(_spelled, names))}"


def _spelled(name: str) -> str:
    """The name of an option as it is documented; another name as it is."""
    return SPELLED.get(name, name)


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """The paths; none if neither option is given. Raises UsageError."""
    paths: list[object] = []
    if "paths" in given:
        try:
            listed = json.loads(given["paths"])
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not listed:
            raise UsageError(
                f"kfmt: option paths is {hidden(given['paths'])!r}, not a JSON list of at least "
                "one path"
            )
        paths += listed
    if "path" in given:
        paths.append(given["path"])
    found = tuple(path for path in paths if isinstance(path, str) and path.strip())
    if len(found) < len(paths):
        wrong = next(path for path in paths if path not in found)
        raise UsageError(f"kfmt: {wrong!r} is not a path")
    return tuple(map(without_credentials, found))


def _columns(given: Mapping[str, str], table: str) -> tuple[str, ...]:
    """The names of the columns; raises UsageError for one that the table lacks, or given twice."""
    columns = names_in(given.get("columns", ""))
    by_name = TABLES[table].by_name
    for i, name in enumerate(columns):
        if name not in by_name:
            near = get_close_matches(name, list(by_name), 2, 0.6)
            words = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UsageError(f"kfmt: table {table} has no column {name!r}{words}")
        if name in columns[:i]:
            raise UsageError(f"kfmt: option columns has {name!r} twice")
    return columns


def _wanted(given: Mapping[str, str]) -> Selection:
    header = (given["header"],) if "header" in given else ()
    match = match_of(given.get("key"), given.get("value"), header, _number(given, "producerid"))
    offsets = _number(given, "firstoffset"), _number(given, "lastoffset")
    return Selection(*offsets, _time(given, "firsttime"), _time(given, "lasttime"), match)


def _plain(name: str) -> str:
    """The canonical name of an option, which may be in any case and contain underscores."""
    plain = name.lower().replace("_", "")
    return FORMER.get(plain, plain)


def _choice(given: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = given.get(name, values[0]).lower()
    if value not in values:
        words = f"{given[name]!r}, not {' or '.join(values)}"
        raise UsageError(f"kfmt: option {_spelled(name)} is {words}")
    return value


def _number(given: Mapping[str, str], name: str) -> int | None:
    """The value of an option, None without it; raises UsageError if it is not allowed."""
    if name not in given:
        return None
    text, least = given[name], NUMBERS[name]
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"kfmt: option {_spelled(name)} is {text!r}, not a number") from None
    if not least <= number <= MOST:
        words = f"is {number}, not a number from {least} to {MOST}"
        raise UsageError(f"kfmt: option {_spelled(name)} {words}")
    return number


def _time(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    return None if text is None else milliseconds(name, text)
