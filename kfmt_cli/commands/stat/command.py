"""stat: statistics of topics, partitions or segments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

from kfmt_cli.commands.each_partition import LogStarts
from kfmt_cli.commands.log_settings import SettingsOf
from kfmt_cli.commands.partition_selection import wanted_of
from kfmt_cli.commands.run import Run
from kfmt_cli.commands.stat.codec_trial import Codec, try_codecs
from kfmt_cli.commands.stat.disk_usage import by_directory, show_usage
from kfmt_cli.commands.stat.lines import columns, more_lines
from kfmt_cli.commands.stat.log_shapes import CountedLogs, LogShapes, Shapes, with_strips
from kfmt_cli.commands.stat.log_work import StatWork
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.times import now_ms
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import partition_of
from kfmt_cli.disk.opening import is_folder
from kfmt_cli.disk.partition_path import place_members
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.disk.targets import GivenPath
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.log.summary.log_numbers import LogNumbers, no_shape
from kfmt_cli.log.summary.statistics import Statistics
from kfmt_cli.render.style import count, human
from kfmt_cli.render.tables.line_table import LineTable
from kfmt_cli.rows.column import Placed
from kfmt_cli.rows.documents import STATISTICS, row_of
from kfmt_cli.sharing.engine import outcomes
from kfmt_cli.sharing.processes import worth
from kfmt_cli.sharing.sampling import sampled, slices_of, written_size

LEVELS = TOPIC, PARTITION, SEGMENT = "topic", "partition", "segment"
NAME = "name"
LEAST_NAME = 24  # columns; a longer name gets its own line if others need the space
_OF_BATCHES = (
    *("batches", "records", "producers", "transactional_batches", "control_batches"),
    "timestamp_skew_ms",
)


@dataclass(frozen=True, slots=True)
class StatSubject:
    """The subject of a row of numbers."""

    file: str
    """The log or directory; empty for a topic."""
    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None


@dataclass(slots=True)
class Stat:
    """One call of `stat`."""

    run: Run
    levels: tuple[str, ...] = (PARTITION,)
    """Levels of rows; people see the first."""
    deep: bool = False
    """Also read records."""
    what_if: tuple[Codec, ...] = ()
    """Codecs to try."""
    histogram: bool = False
    """Also show people the distribution of batches."""
    jobs: int = 1
    limit: Limit = field(default_factory=Limit)
    asked: Asked = field(default_factory=Asked)
    """The selection to count."""
    sample: int | None = None
    """Bytes to read as a sample; None to read everything."""
    sort: str = NAME
    """Sort key of rows: name, or a number, largest first."""
    plot: bool = False
    """Show log shapes: the distribution over time and more."""
    strips: frozenset[str] | None = None
    """With plot: the files whose logs are the first to be shown as strips; None for no strips."""
    counted: CountedLogs = field(default_factory=CountedLogs)
    """With plot: logs that need not be read."""
    codec_sample: int | None = None
    """Bytes to try other codecs on, over all partitions; see `try_codecs`."""
    settings: SettingsOf = field(default_factory=SettingsOf)
    """Those by which retention frees bytes."""
    now: int = field(default_factory=now_ms)
    """Current time in milliseconds."""
    _about_sample: str = ""

    def paths(self, paths: Sequence[GivenPath | str]) -> None:
        """Show the statistics of everything under some paths."""
        run = self.run
        takes_pipe = not self.what_if and not self.asked.needs_logs and self.sample is None
        partitions = partitions_below(paths, run.complain, run.sink.note, takes_pipe=takes_pipe)
        logs = list(self._logs(partitions))
        files = [file for _, file, _ in logs]
        sizes = list(map(size_of, files))
        is_sample = self.sample is not None
        every = self._sampled(files) if is_sample else self._all(logs, sizes)
        rows: dict[StatSubject, Statistics] = {}
        places: dict[str | None, set[str]] = {}
        shapes = Shapes()
        with self.run.host.progress(sum(sizes)) as progress:
            for (partition, file, _), size, found in zip(logs, sizes, every, strict=True):
                progress.advance(size)
                if isinstance(found, InputError):
                    self.run.complain(str(found))
                    continue
                above = place_members(partition.name, Placed.PARTITION)["log_dir"] or os.curdir
                for subject in dict.fromkeys(_subject(of, partition, file) for of in self.levels):
                    rows.setdefault(subject, Statistics()).add(found.statistics)
                    places.setdefault(subject.topic, set()).add(above)
                if found.trouble:
                    self.run.complain(found.trouble)
                shapes.take(partition, file, found)
        self._show(rows, places)
        if self.plot:
            shapes.show(self.run.sink)
        if self._about_sample:
            self.run.sink.remark(self._about_sample)
        if damaged := sum(found.damaged for found in rows.values()):
            words = count(damaged, "batch was", "batches were")
            why = "damaged, or cannot be decompressed; see kfmt verify-crc --deep"
            self.run.sink.note(f"{words} not decoded: {why}\n")
        if not self.asked and self.sample is None:
            names = (path if isinstance(path, str) else path.path for path in paths)
            of_directories = by_directory(partitions)
            for path, real in _outermost(filter(_is_folder, names)):
                below = of_directories.get(real, [])
                show_usage(run, path, below, self.settings, self.now, is_told=len(rows) > 1)
        try_codecs(self.run, self.what_if, partitions, self.limit, self.codec_sample)

    def _all(
        self, logs: list[tuple[Partition, Input, Selection]], sizes: list[int]
    ) -> Iterator[LogNumbers | InputError]:
        """The statistics of each complete log, or why it cannot be read. sizes: in bytes."""
        shapes = LogShapes()
        if self.strips is not None:
            shapes = with_strips([log for _, log, _ in logs], self.strips)
        known = [self.counted.take(log, shapes) for _, log, _ in logs]
        left = [
            ((log, wanted), size)
            for (_, log, wanted), size, found in zip(logs, sizes, known, strict=True)
            if found is None
        ]
        work = StatWork(self.deep, self.limit, shapes if self.plot else no_shape)
        found_now = outcomes(work, left, worth(self.jobs, sum(sizes)))
        counted = zip(left, found_now, strict=True)
        for found in known:
            if found is None:
                (task, _), outcome = next(counted)
                yield work.tried(task) if outcome is None else outcome
            else:
                yield found
        assert next(counted, None) is None  # and the processes end

    def _sampled(self, logs: list[Input]) -> Iterator[LogNumbers | InputError]:
        """The statistics of each log from a sample, or why it cannot be read."""
        sizes = list(map(written_size, logs))
        slices = slices_of(sizes, self.sample or 0)
        of_logs = {i: list(its) for i, its in groupby(slices, key=lambda part: part.log)}
        n_read = 0
        for i, (file, size) in enumerate(zip(logs, sizes, strict=True)):
            try:
                found, n = sampled(file, size, of_logs.get(i, ()))
            except InputError as error:
                yield error
                continue
            n_read += n
            yield LogNumbers(None, found)
        read = f"sampled {human(n_read)} of {human(sum(sizes))}, bypassing the page cache"
        self._about_sample = f"{read}; totals are extrapolated"

    def _logs(self, partitions: list[Partition]) -> Iterator[tuple[Partition, Input, Selection]]:
        """The logs of partitions that may contain selected records, each with its selection."""
        starts = LogStarts(self.run)
        for partition in partitions:
            starts.of(partition)
            with self.run.complaining():
                wanted = wanted_of(self.asked, partition.logs, self.limit)
                for file in wanted.logs(partition.logs):
                    yield partition, file, wanted

    def _show(
        self, rows: dict[StatSubject, Statistics], places: dict[str | None, set[str]]
    ) -> None:
        """Show the rows; for people, with totals. places: the log directories of each topic."""
        sink = self.run.sink
        shown = [(subject, found.of_all()) for subject, found in rows.items()]
        if self.sort != NAME:
            shown.sort(key=lambda row: -getattr(row[1], self.sort))
        lines = [(subject.file or str(subject.topic), found) for subject, found in shown]
        total = sum(found.bytes for _, found in lines)
        totals = list(_totals(list(rows.items()))) if len(shown) > 1 and sink.for_people else []
        room = None if sink.look.wide else sink.out.width
        shares = total if len(shown) > 1 else None
        is_old = any(found.magics.keys() & {"0", "1"} for _, found in shown)
        heads = list(columns(shares, is_sample=self.sample is not None, is_old=is_old))
        table = LineTable(
            self.levels[0], [*lines, *totals], heads, sink.out.theme, room, LEAST_NAME
        )
        for i, (subject, found) in enumerate(shown):
            text = [] if i else [table.heading()]
            text.append(table.line(lines[i][0], found))
            text += more_lines(found) if self.deep or self.histogram else []
            row = asdict(subject)
            if not subject.file:
                above = places[subject.topic]
                common = _common(above)
                row |= {"file": common, "log_dir": common if len(above) == 1 else None}
            row |= {"codecs": dict(found.codecs), "magics": dict(found.magics)}
            sink.document(STATISTICS, row_of(STATISTICS, found, row | _changed(found)), text)
        for name, found in totals:
            sink.put(table.line(name, found))


def _common(places: Iterable[str]) -> str:
    """The path that directories have in common; empty if none, as of a relative and an absolute
    one."""
    try:
        return os.path.commonpath(places)
    except ValueError:
        return ""


def _subject(level: str, partition: Partition, file: Input) -> StatSubject:
    """The subject of the row that a log is counted in."""
    topic, _ = partition_of(file.path)
    if level == TOPIC and topic is not None:
        return StatSubject("", topic)
    name = file.name if level == SEGMENT else partition.name
    return StatSubject(name, **place_members(partition.name, Placed.PARTITION))


def _totals(rows: list[tuple[StatSubject, Statistics]]) -> Iterator[tuple[str, Statistics]]:
    """The totals of topics with several rows, and of everything."""
    of_topics: dict[str | None, list[Statistics]] = {}
    for subject, found in rows:
        of_topics.setdefault(subject.topic, []).append(found)
    for topic, parts in of_topics.items():
        if topic is not None and 1 < len(parts) < len(rows):
            yield f"topic {topic}", _sum(parts)
    yield "all", _sum([found for _, found in rows])


def _sum(parts: list[Statistics]) -> Statistics:
    """The sum; if every part was sampled, each is extrapolated first, otherwise the sum is."""
    by_part = all(part.is_known for part in parts)
    total = Statistics()
    for part in parts:
        total.add(part.of_all() if by_part else part)
    return total if by_part else total.of_all()


def _is_folder(path: str) -> bool:
    try:
        return is_folder(path)
    except InputError:  # a corrupt archive; reading it reports it
        return False


def _outermost(paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The directories that are not in another one of them, each once, with their real paths."""
    by_real: dict[Path, str] = {}
    for path in paths:
        by_real.setdefault(Path(os.path.realpath(path)), path)
    for real, path in by_real.items():
        if by_real.keys().isdisjoint(real.parents):
            yield path, real


def _changed(found: Statistics) -> dict[str, object]:
    """The numbers that programs get in another form, or not at all."""
    ratio = found.compression_ratio
    row: dict[str, object] = {} if found.is_known else dict.fromkeys(_OF_BATCHES)
    return {**row, "compression_ratio": None if ratio is None else round(ratio, 3)}
