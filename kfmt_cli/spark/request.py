"""Requests from the options of Spark or of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.times import milliseconds
from kfmt_cli.disk.tiered_keys import key_bytes
from kfmt_cli.errors import UsageError
from kfmt_cli.log.matching import match_of
from kfmt_cli.log.select import Asked, Selection
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
    "last": "only the last N of these records in each partition",
    "topics": "comma-separated names",
    "isolation": "read_uncommitted (the default) or read_committed",
    "maxSplitBytes": "file bytes per task (default 128 MiB)",
    "batchRows": "rows per Arrow batch (default 32768)",
    "mode": "PERMISSIVE (the default): damage becomes findings; FAILFAST: it stops the query",
    "deep": "true: `findings` and `segments` also decode every record",
    "filterPushdown": (
        "true: push WHERE filters down so that excluded data is not read. Needs Spark 4.1, "
        "spark.sql.python.filterPushdown.enabled, and a separate `load` per query"
    ),
    "maxDecompressed": "maximum decompressed size of one batch, in bytes",
    "maxBytesPerTrigger": "streams: approximate bytes per trigger; Spark 4.2 and later",
    "startingOffsets": "streams: earliest (the default) or latest",
    "rsmPrivateKey": (
        "private key file (PKCS #8) on the driver, for segments encrypted by Aiven's tiered storage"
    ),
}
KNOWN = {name for names in OPTIONS for name in names.lower().split(", ")}
# Former names of bounds.
FORMER = {
    "startoffset": "firstoffset",
    "endoffset": "lastoffset",
    "starttime": "firsttime",
    "endtime": "lasttime",
}


def request_of(options: Mapping[str, str]) -> Request:
    """The request from Spark options; raises UsageError."""
    given = {_plain(name): value for name, value in options.items()}
    unknown = sorted(set(given) - KNOWN - {"parallelism"})
    if unknown:
        raise UsageError(f"kfmt: no option {unknown[0]!r}; choose from {', '.join(OPTIONS)}")
    table = given.get("table", "records")
    if table not in TABLES:
        raise UsageError(f"kfmt: no table {table!r}; choose from {', '.join(TABLES)}")
    columns = names_in(given.get("columns", ""))
    for name in columns:
        if name not in TABLES[table].by_name:
            raise UsageError(f"kfmt: table {table} has no column {name!r}")
    paths = tuple(json.loads(given["paths"])) if "paths" in given else ()
    paths += (given["path"],) if "path" in given else ()
    isolation = _choice(given, "isolation", ("read_uncommitted", "read_committed"))
    mode = _choice(given, "mode", ("permissive", "failfast"))
    limit = _number(given, "maxdecompressed")
    return Request(
        table=table,
        paths=paths,
        columns=columns,
        asked=Asked(_wanted(given), _number(given, "last"), isolation == "read_committed"),
        topics=frozenset(names_in(given.get("topics", ""))),
        max_split=_number(given, "maxsplitbytes") or SPLIT,
        batch_rows=_number(given, "batchrows") or BATCH_ROWS,
        fail_fast=mode == "failfast",
        deep=_choice(given, "deep", ("false", "true")) == "true",
        pushdown=_choice(given, "filterpushdown", ("false", "true")) == "true",
        parallelism=_number(given, "parallelism") or os.cpu_count() or 1,
        limit=Limit.of_option(limit),
        private_key=key_bytes(given["rsmprivatekey"]) if "rsmprivatekey" in given else None,
    )


def stream_of(options: Mapping[str, str]) -> tuple[int | None, bool]:
    """The bytes per trigger of a stream, and whether it starts at the end; raises UsageError."""
    given = {_plain(name): value for name, value in options.items()}
    is_latest = _choice(given, "startingoffsets", ("earliest", "latest")) == "latest"
    return _number(given, "maxbytespertrigger"), is_latest


def _wanted(given: Mapping[str, str]) -> Selection:
    header = (given["header"],) if "header" in given else ()
    match = match_of(given.get("key"), given.get("value"), header, _number(given, "producerid"))
    offsets = _number(given, "firstoffset"), _number(given, "lastoffset")
    return Selection(*offsets, _time(given, "firsttime"), _time(given, "lasttime"), match)


def options_of(request: Request) -> dict[str, str]:
    """The inverse of `request_of`, except for paths and record filters."""
    asked = request.asked
    wanted = asked.wanted
    options = {
        "table": request.table,
        "columns": ",".join(request.columns),
        "firstOffset": wanted.first_offset,
        "lastOffset": wanted.last_offset,
        "firstTime": wanted.first_time,
        "lastTime": wanted.last_time,
        "topics": ",".join(sorted(request.topics)),
        "last": asked.last,
        "isolation": "read_committed" if asked.committed else None,
        "maxSplitBytes": request.max_split,
        "batchRows": request.batch_rows,
        "mode": "failfast" if request.fail_fast else None,
        "deep": "true" if request.deep else None,
        "maxDecompressed": request.limit.given,
    }
    return {name: str(value) for name, value in options.items() if value not in (None, "")}


def _plain(name: str) -> str:
    """The canonical name of an option, which may be in any case and contain underscores."""
    plain = name.lower().replace("_", "")
    return FORMER.get(plain, plain)


def _choice(given: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = given.get(name, values[0]).lower()
    if value not in values:
        raise UsageError(f"kfmt: option {name} is {given[name]!r}, not {' or '.join(values)}")
    return value


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return int(given[name])
    except ValueError:
        raise UsageError(f"kfmt: option {name} is {given[name]!r}, not a number") from None


def _time(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    return None if text is None else milliseconds(name, text)
