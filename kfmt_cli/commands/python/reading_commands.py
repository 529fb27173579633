"""Python functions for the commands that read: each returns its rows, as objects or as Arrow.

Part of kfmt_cli's Python API (docs/python.md); `writing_commands.py` has the commands that write.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kfmt_cli.commands.python.bounds import datetime_to_ms, parse_integer
from kfmt_cli.commands.python.command_result import CommandResult, run_command
from kfmt_cli.commands.python.read import (
    Path,
    Paths,
    as_tuple,
    resolve_paths,
)
from kfmt_cli.errors import UsageError


def check(
    paths: Paths,
    *,
    only: Iterable[str] = (),
    ignore: Iterable[str] = (),
    jobs: int | None = None,
    kafka_version: str | None = None,
) -> CommandResult:
    """Check everything about the partitions under some paths, as `kfmt check` does.

    only, ignore: codes of findings to show, or to hide. kafka_version: the broker's version, such
    as "4.2"; by default, the version in the metadata log. Raises UsageError for an unknown code or
    version.
    """
    from kfmt_cli.commands.check.command import CheckCommand
    from kfmt_cli.commands.check.options import CheckOptions

    options = CheckOptions(
        paths=resolve_paths(paths),
        only=as_tuple(only),
        ignore=as_tuple(ignore),
        jobs=jobs,
        kafka=kafka_version,
    )
    return run_command(CheckCommand, options)


def stat(paths: Paths, *, by: str = "partition", deep: bool = False) -> CommandResult:
    """Count batches, records, codecs, offsets and times, as `kfmt stat` does.

    by: segment, partition or topic. deep: also decode records.
    """
    from kfmt_cli.commands.stat.command import StatCommand
    from kfmt_cli.commands.stat.options import StatOptions

    return run_command(StatCommand, StatOptions(paths=resolve_paths(paths), by=by, deep=deep))


def find(
    paths: Paths,
    *,
    offset: int | None = None,
    timestamp: int | datetime | None = None,
    key: bytes | str | None = None,
    producer_id: int | None = None,
    limit: int | None = None,
) -> CommandResult:
    """Find records by offset, timestamp (milliseconds or a datetime), key or producer, as
    `kfmt find` does.

    key: text is encoded as UTF-8.
    """
    from kfmt_cli.commands.find.command import FindCommand
    from kfmt_cli.commands.find.options import FindOptions

    if sum(argument is not None for argument in (offset, timestamp, key, producer_id)) != 1:
        raise UsageError("pass exactly one of offset, timestamp, key and producer_id")
    key_bytes = key.encode() if isinstance(key, str) else key
    options = FindOptions(
        paths=resolve_paths(paths),
        offset=parse_integer("offset", offset),
        timestamp=parse_integer("timestamp", datetime_to_ms(timestamp, rounds_up=True)),
        key=None if key_bytes is None else f"hex:{key_bytes.hex()}",
        producer_id=parse_integer("producer_id", producer_id),
        limit=limit,
    )
    return run_command(FindCommand, options)


def txn(paths: Paths, *, only_open: bool = False) -> CommandResult:
    """List the transactions of partitions, as `kfmt txn` does."""
    from kfmt_cli.commands.txn.command import TxnCommand
    from kfmt_cli.commands.txn.options import TxnOptions

    return run_command(TxnCommand, TxnOptions(paths=resolve_paths(paths), only_open=only_open))


def diff(a: Path, b: Path) -> CommandResult:
    """Compare two replicas, as `kfmt diff` does."""
    from kfmt_cli.commands.diff.command import DiffCommand
    from kfmt_cli.commands.diff.options import DiffOptions

    (path_a,), (path_b,) = resolve_paths([a]), resolve_paths([b])
    return run_command(DiffCommand, DiffOptions(a=path_a, b=path_b))


def retention(paths: Paths, *, now: int | None = None, **settings: object) -> CommandResult:
    """Predict what retention deletes, and when, as `kfmt retention` does.

    now: the current time in milliseconds. settings: topic settings, such as retention_ms.
    """
    from kfmt_cli.commands.retention.command import RetentionCommand
    from kfmt_cli.commands.retention.options import RetentionOptions

    options = RetentionOptions(paths=resolve_paths(paths), now=now, other_settings=settings)
    return run_command(RetentionCommand, options)


def compaction(
    paths: Paths, *, now: int | None = None, offsets: bool = False, **settings: object
) -> CommandResult:
    """Predict a run of the log cleaner over partitions, as `kfmt compaction` does.

    now: the current time in milliseconds. offsets: list the offsets that are kept. settings: topic
    settings, such as delete_retention_ms.
    """
    from kfmt_cli.commands.compaction.command import CompactionCommand
    from kfmt_cli.commands.compaction.options import CompactionOptions

    options = CompactionOptions(
        paths=resolve_paths(paths), now=now, offsets=offsets, other_settings=settings
    )
    return run_command(CompactionCommand, options)


def state(
    paths: Paths,
    *,
    at_offset: int | None = None,
    since_offset: int | None = None,
    group: str | None = None,
    topic: str | Iterable[str] = (),
    as_topic: str | None = None,
    of_topic: str | None = None,
) -> CommandResult:
    """Replay the state of internal topics, as `kfmt state` does.

    topic: only these topics; names may contain * and ?. as_topic: the internal topic, if the
    directory is not named after it. of_topic: the former spelling of as_topic.
    """
    from kfmt_cli.commands.state.command import StateCommand
    from kfmt_cli.commands.state.options import StateOptions

    options = StateOptions(
        paths=resolve_paths(paths),
        at_offset=at_offset,
        since_offset=since_offset,
        group=group,
        topic=as_tuple(topic),
        as_topic=as_topic,
        of_topic=of_topic,
    )
    return run_command(StateCommand, options)
