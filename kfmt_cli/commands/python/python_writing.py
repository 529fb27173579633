"""The commands that write, for programs: each returns the results that it prints.

Inputs are never changed, and an output appears whole or not at all, as on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kfmt_cli.commands.python.python_answer import Answer, answer_of
from kfmt_cli.commands.python.read import Path, Paths, path_names, texts
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.source import PIPE
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import local
from kfmt_cli.errors import UsageError, unknown_name


def salvage(
    source: Path,
    destination: Path,
    *,
    records: bool = False,
    deleted: bool = False,
    topic: str | None = None,
    index_interval_bytes: int | None = None,
    jobs: int | None = None,
) -> Answer:
    """Copy every undamaged batch into new logs, as `kfmt salvage` does.

    destination: a new directory. records: also keep readable records of damaged batches. deleted:
    also take what a broker marked as deleted. topic: the topic to which the partitions are to
    belong. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
    from kfmt_cli.commands.salvage.command import SALVAGED, Salvage
    from kfmt_cli.disk.names import topic_trouble

    if topic is not None and (trouble := topic_trouble(topic)):
        raise UsageError(trouble)

    def command(run: Run) -> None:
        (named,) = path_names([source])
        interval = index_interval_bytes or INDEX_INTERVAL_BYTES
        n = jobs or available_cores()
        task = Salvage(run, Limit(), n, interval, records, deleted, topic)
        task.salvage(named, _place(destination))

    return answer_of(command, SALVAGED)


def rebuild_index(
    paths: Paths,
    destination: Path,
    *,
    as_started: bool = False,
    index_interval_bytes: int | None = None,
    force: bool = False,
) -> Answer:
    """Write the indexes that log recovery would write into a directory, as `kfmt rebuild-index`
    does.

    as_started: those that a start after a crash leaves. index_interval_bytes: by default that of
    each topic. force: replace files there. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.broker.defaults import PRODUCER_ID_EXPIRATION_MS
    from kfmt_cli.commands.rebuild_index.command import REBUILT, Rebuild

    expired_before = now_ms() - PRODUCER_ID_EXPIRATION_MS

    def command(run: Run) -> None:
        task = Rebuild(run, index_interval_bytes, force, False, expired_before, as_started)
        task.rebuild(path_names(paths), _place(destination))

    return answer_of(command, REBUILT)


def build(
    source: Path,
    destination: Path,
    *,
    topic: str | None = None,
    force: bool = False,
    **options: Any,
) -> Answer:
    """Write segments from a file of JSON Lines, as `kfmt build` does.

    topic: the topic to which all records are to belong. options: those of the command that shape
    batches, such as compression="zstd" or batch_records=100. Raises InputError, UsageError,
    OutputError.
    """
    from kfmt_cli.commands.build.command import BUILT, Build, options_of
    from kfmt_cli.writing.rolling import Rolling

    shape, name = options_of(**options), os.fsdecode(source)
    if name == PIPE:
        raise UsageError("-: the Python API cannot read standard input; give a file")
    rolling = Rolling(by_file=True)
    return answer_of(
        lambda run: Build(run, shape, rolling, topic).build(name, _place(destination), force),
        BUILT,
    )


def export(
    paths: Paths,
    to: Path,
    *,
    file_format: str = "parquet",
    tables: Iterable[str] = ("records",),
    columns: Iterable[str] = (),
    topics: Iterable[str] = (),
    force: bool = False,
    jobs: int | None = None,
    **options: Any,
) -> Answer:
    """Write records, batches or both as files for a lake, as `kfmt export` does.

    file_format: parquet, json or csv. options: partition_by, one_file_per_partition, schema,
    target_file_bytes. Raises InputError, UsageError, OutputError.
    """
    from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
    from kfmt_cli.arrow.export.lake import DEFAULTS, lake_of
    from kfmt_cli.commands.export.command import Export
    from kfmt_cli.disk.given import listed_form
    from kfmt_cli.rows.table_types import LAKE_TABLES, exported
    from kfmt_cli.sharing.request import Request, request_with

    wanted = texts(tables)
    known: Iterable[str]
    for kind, given, known in (
        ("table", wanted, LAKE_TABLES),
        ("file format", (file_format,), FILE_FORMATS),
        ("option", options, sorted(DEFAULTS.keys() - {"tables", "columns"})),
    ):
        for name in given:
            if name not in known:
                raise unknown_name(kind, name, known)
    names = {"tables": ",".join(wanted), "columns": ",".join(texts(columns))}
    lake = lake_of({**DEFAULTS, **options, **names}, file_format)
    n = jobs or available_cores()
    request = request_with(
        Request(max_split=lake.target, parallelism=n),
        map(listed_form, path_names(paths)),
        names["columns"],
        ",".join(texts(topics)),
    )
    task = Export(request, _place(to), lake, n, force)

    def command(run: Run) -> None:
        task.tell = run.sink.note
        run.whole(task, request.paths)

    return answer_of(command, exported(lake.tables))


def _place(to: Path) -> str:
    """Where to write: a path, or the URL of a store; raises UsageError."""
    if not (place := local(os.fsdecode(to))):
        raise UsageError("a path cannot be empty")
    return place
