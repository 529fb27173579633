"""The commands for programs: each returns its rows, as objects or as Arrow.

Everything `kfmt_cli` offers to Python except reading (docs/python.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from kfmt_cli.commands.python.python_answer import Answer, answer_of
from kfmt_cli.commands.python.read import (
    Path,
    Paths,
    integer,
    milliseconds,
    path_names,
    texts,
)
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.times import now_ms
from kfmt_cli.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from kfmt_cli.commands.log_settings import SettingsOf


def check(
    paths: Paths,
    *,
    only: Iterable[str] = (),
    ignore: Iterable[str] = (),
    jobs: int | None = None,
    kafka_version: str | None = None,
) -> Answer:
    """Check everything about the partitions under some paths, as `kfmt check` does.

    only, ignore: codes of findings to show, or to hide. kafka_version: the broker's, such as "4.2";
    by default that of the metadata log. Raises UsageError for unknown ones.
    """
    from kfmt_cli.broker.version import VERSIONS, by_option
    from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
    from kfmt_cli.commands.check.command import CheckPaths, of_codes

    if kafka_version not in (None, *(version.name for version in VERSIONS)):
        raise UsageError(f"Kafka version {kafka_version!r} is not supported")
    kafka = None if kafka_version is None else by_option(kafka_version)

    takes = of_codes(texts(only), texts(ignore))

    def command(run: Run) -> None:
        task = CheckPaths(run, jobs or available_cores(), kafka=kafka, takes=takes)
        task.paths(path_names(paths))

    return answer_of(command, CHECK_RESULT)


def stat(paths: Paths, *, by: str = "partition", deep: bool = False) -> Answer:
    """Count batches, records, codecs, offsets and times, as `kfmt stat` does.

    by: segment, partition or topic. deep: also decode records.
    """
    from kfmt_cli.commands.stat.command import LEVELS, Stat

    if by not in LEVELS:
        raise unknown_name("level", by, LEVELS)

    def command(run: Run) -> None:
        Stat(run, (by,), deep, (), False, available_cores(), Limit()).paths(path_names(paths))

    return answer_of(command)


def find(
    paths: Paths,
    *,
    offset: int | None = None,
    timestamp: int | datetime | None = None,
    key: bytes | str | None = None,
    producer_id: int | None = None,
    limit: int | None = None,
) -> Answer:
    """Find records by offset, timestamp (milliseconds or a datetime), key or producer, as
    `kfmt find` does.

    key: text is taken as UTF-8.
    """
    from kfmt_cli.commands.find.command import Find
    from kfmt_cli.log.selection.record_match import Match
    from kfmt_cli.log.selection.select import Asked, Selection

    if sum(wanted is not None for wanted in (offset, timestamp, key, producer_id)) != 1:
        raise UsageError("pass exactly one of offset, timestamp, key and producer_id")
    at = integer("timestamp", milliseconds(timestamp, up=True))
    offset, producer_id = integer("offset", offset), integer("producer_id", producer_id)

    def command(run: Run) -> None:
        sought_key = key.encode() if isinstance(key, str) else key
        match = Match(sought_key, producer_id=producer_id)
        asked = Asked(Selection(match=match))
        Find(run, offset, at, asked, limit).paths(path_names(paths))

    return answer_of(command)


def txn(paths: Paths, *, only_open: bool = False) -> Answer:
    """List the transactions of partitions, as `kfmt txn` does."""
    from kfmt_cli.commands.txn.command import ShowTransactions

    return answer_of(lambda run: ShowTransactions(run, only_open).paths(path_names(paths)))


def diff(a: Path, b: Path) -> Answer:
    """Compare two replicas, as `kfmt diff` does."""
    from kfmt_cli.commands.diff.command import Diff

    both = path_names([a]) + path_names([b])
    return answer_of(lambda run: Diff(run, Limit()).paths(*both))


def retention(paths: Paths, *, now: int | None = None, **settings: object) -> Answer:
    """Predict what retention deletes, and when, as `kfmt retention` does.

    now: the current time in milliseconds. settings: topic settings, such as retention_ms.
    """
    from kfmt_cli.commands.retention.command import Retention

    def command(run: Run) -> None:
        Retention(run, _settings(settings), _time(now)).paths(path_names(paths))

    return answer_of(command)


def compaction(
    paths: Paths, *, now: int | None = None, offsets: bool = False, **settings: object
) -> Answer:
    """Predict a run of the log cleaner over partitions, as `kfmt compaction` does.

    now: the current time in milliseconds. offsets: list the offsets that are kept. settings: topic
    settings, such as delete_retention_ms.
    """
    from kfmt_cli.commands.compaction.command import Compaction

    def command(run: Run) -> None:
        task = Compaction(run, _settings(settings), _time(now), offsets)
        task.insists = "min_cleanable_ratio" in settings
        task.paths(path_names(paths))

    return answer_of(command)


def state(
    paths: Paths,
    *,
    at_offset: int | None = None,
    since_offset: int | None = None,
    group: str | None = None,
    topic: str | None = None,
    of_topic: str | None = None,
) -> Answer:
    """Replay the state of internal topics, as `kfmt state` does."""
    from kfmt_cli.commands.state.command import ShowState, Wanted

    def command(run: Run) -> None:
        wanted = Wanted(at_offset, since_offset, group, topic, of_topic)
        ShowState(run, wanted, Limit()).paths(path_names(paths))

    return answer_of(command)


def _settings(settings: dict[str, object]) -> SettingsOf:
    from kfmt_cli.broker.topic_settings import TopicSettings
    from kfmt_cli.commands.log_settings import SettingsOf

    known = TopicSettings.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise unknown_name("setting", name, sorted(known))
    return SettingsOf.given(None, settings)


def _time(now: int | None) -> int:
    return now_ms() if now is None else now
