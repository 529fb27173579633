"""The commands that read, for programs: each returns its rows, as objects or as Arrow.

Part of kfmt_cli's Python API (docs/python.md); `writing_commands.py` has the commands that write.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.python.command_result import CommandResult, run_command
from kfmt_cli.commands.python.read import (
    Path,
    Paths,
    as_tuple,
    datetime_to_ms,
    parse_integer,
    resolve_paths,
)
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.times import now_ms
from kfmt_cli.errors import UsageError, unknown_name_error

if TYPE_CHECKING:
    from kfmt_cli.commands.settings_resolver import TopicSettingsResolver


def check(
    paths: Paths,
    *,
    only: Iterable[str] = (),
    ignore: Iterable[str] = (),
    jobs: int | None = None,
    kafka_version: str | None = None,
) -> CommandResult:
    """Check everything about the partitions under some paths, as `kfmt check` does.

    only, ignore: codes of findings to show, or to hide. kafka_version: the broker's, such as "4.2";
    by default that of the metadata log. Raises UsageError for unknown ones.
    """
    from kfmt_cli.broker.version import KAFKA_VERSIONS, version_from_option
    from kfmt_cli.commands.check.command import CheckCommand, code_filter
    from kfmt_cli.commands.check.directory_result import CHECK_RESULT

    if kafka_version not in (None, *(version.name for version in KAFKA_VERSIONS)):
        raise UsageError(f"Kafka version {kafka_version!r} is not supported")
    predicted_version = None if kafka_version is None else version_from_option(kafka_version)

    is_shown_code = code_filter(as_tuple(only), as_tuple(ignore))

    def command(run: CommandRun) -> None:
        check_command = CheckCommand(
            run,
            jobs or available_cores(),
            explicit_version=predicted_version,
            is_shown_code=is_shown_code,
        )
        check_command.check_and_show_paths(resolve_paths(paths))

    return run_command(command, CHECK_RESULT)


def stat(paths: Paths, *, by: str = "partition", deep: bool = False) -> CommandResult:
    """Count batches, records, codecs, offsets and times, as `kfmt stat` does.

    by: segment, partition or topic. deep: also decode records.
    """
    from kfmt_cli.commands.stat.command import STAT_LEVELS, StatCommand

    if by not in STAT_LEVELS:
        raise unknown_name_error("level", by, STAT_LEVELS)

    def command(run: CommandRun) -> None:
        StatCommand(
            run, (by,), deep, (), False, available_cores(), DecompressionLimit()
        ).show_paths(resolve_paths(paths))

    return run_command(command)


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

    key: text is taken as UTF-8.
    """
    from kfmt_cli.commands.find.command import FindCommand
    from kfmt_cli.log.selection.record_filter import RecordFilter
    from kfmt_cli.log.selection.selection import Selection, SelectionOptions

    if sum(argument is not None for argument in (offset, timestamp, key, producer_id)) != 1:
        raise UsageError("pass exactly one of offset, timestamp, key and producer_id")
    timestamp_ms = parse_integer("timestamp", datetime_to_ms(timestamp, rounds_up=True))
    offset, producer_id = parse_integer("offset", offset), parse_integer("producer_id", producer_id)

    def command(run: CommandRun) -> None:
        key_bytes = key.encode() if isinstance(key, str) else key
        record_filter = RecordFilter(key_bytes, producer_id=producer_id)
        selection_options = SelectionOptions(Selection(record_filter=record_filter))
        FindCommand(run, offset, timestamp_ms, selection_options, limit).search_paths(
            resolve_paths(paths)
        )

    return run_command(command)


def txn(paths: Paths, *, only_open: bool = False) -> CommandResult:
    """List the transactions of partitions, as `kfmt txn` does."""
    from kfmt_cli.commands.txn.command import TxnCommand

    return run_command(lambda run: TxnCommand(run, only_open).show_paths(resolve_paths(paths)))


def diff(a: Path, b: Path) -> CommandResult:
    """Compare two replicas, as `kfmt diff` does."""
    from kfmt_cli.commands.diff.command import DiffCommand

    paths = resolve_paths([a]) + resolve_paths([b])
    return run_command(lambda run: DiffCommand(run, DecompressionLimit()).compare_paths(*paths))


def retention(paths: Paths, *, now: int | None = None, **settings: object) -> CommandResult:
    """Predict what retention deletes, and when, as `kfmt retention` does.

    now: the current time in milliseconds. settings: topic settings, such as retention_ms.
    """
    from kfmt_cli.commands.retention.command import RetentionCommand

    def command(run: CommandRun) -> None:
        RetentionCommand(run, _settings_resolver(settings), _current_time_ms(now)).show_paths(
            resolve_paths(paths)
        )

    return run_command(command)


def compaction(
    paths: Paths, *, now: int | None = None, offsets: bool = False, **settings: object
) -> CommandResult:
    """Predict a run of the log cleaner over partitions, as `kfmt compaction` does.

    now: the current time in milliseconds. offsets: list the offsets that are kept. settings: topic
    settings, such as delete_retention_ms.
    """
    from kfmt_cli.commands.compaction.command import CompactionCommand

    def command(run: CommandRun) -> None:
        compaction_command = CompactionCommand(
            run, _settings_resolver(settings), _current_time_ms(now), offsets
        )
        compaction_command.cleans_only_picked = "min_cleanable_ratio" in settings
        compaction_command.show_paths(resolve_paths(paths))

    return run_command(command)


def state(
    paths: Paths,
    *,
    at_offset: int | None = None,
    since_offset: int | None = None,
    group: str | None = None,
    topic: str | None = None,
    of_topic: str | None = None,
) -> CommandResult:
    """Replay the state of internal topics, as `kfmt state` does."""
    from kfmt_cli.commands.state.command import StateCommand, StateSelection

    def command(run: CommandRun) -> None:
        selection = StateSelection(at_offset, since_offset, group, topic, of_topic)
        StateCommand(run, selection, DecompressionLimit()).show_paths(resolve_paths(paths))

    return run_command(command)


def _settings_resolver(settings: dict[str, object]) -> TopicSettingsResolver:
    from kfmt_cli.broker.topic_settings import TopicSettings
    from kfmt_cli.commands.settings_resolver import TopicSettingsResolver

    setting_names = TopicSettings.__dataclass_fields__
    for setting_name in settings:
        if setting_name not in setting_names:
            raise unknown_name_error("setting", setting_name, sorted(setting_names))
    return TopicSettingsResolver.from_options(None, settings)


def _current_time_ms(now: int | None) -> int:
    return now_ms() if now is None else now
