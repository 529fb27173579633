"""index-check: checks indexes against their logs; also traces lookups step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kfmt_cli.broker.offsets.lookup import Lookup, choose, look_up
from kfmt_cli.broker.start.brokers import version_at
from kfmt_cli.broker.version import PredictedFor, version_words
from kfmt_cli.checks.index.checker import IndexChecker
from kfmt_cli.commands.index_check.lines import lookup_lines
from kfmt_cli.commands.run import Event, Run, told
from kfmt_cli.core.compressed_files import WHOLLY_PACKED
from kfmt_cli.disk.names import partition_folder
from kfmt_cli.disk.segment import Segment
from kfmt_cli.disk.targets import targets
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.log.pack import is_packable
from kfmt_cli.rows.documents import LOOKUP
from kfmt_cli.rows.result import Result
from kfmt_cli.sharing.engine import Work, outcomes
from kfmt_cli.sharing.processes import worth


@dataclass(slots=True)
class IndexCheck:
    """One call of `index-check`."""

    checker: IndexChecker
    jobs: int = 1
    """Number of processes."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Number of files in directories that are not checked, by kind."""
    _segments: list[tuple[Segment, int]] = field(default_factory=list)

    def plan(self, paths: tuple[str, ...]) -> Iterator[InputError]:
        """Find the distinct segments of all paths; yields unreadable inputs."""
        found: dict[str, Segment] = {}
        unread: list[str] = []
        for target in targets(paths, unread.append, copies=True):
            try:
                for segment in target.segments(self.passed_over):
                    if segment.given and not segment.wanted:
                        raise InputError(f"{segment.any_file.name}: {WHOLLY_PACKED}")
                    known = found.setdefault(segment.real_path, segment)
                    known.wanted |= segment.wanted
                    known.given |= segment.given
            except InputError as error:
                unread.append(str(error))
        yield from map(InputError, unread)
        self._segments = [
            (segment, 0 if segment.log is None else size_of(segment.log))
            for segment in found.values()
        ]

    @property
    def total(self) -> int:
        """Bytes of all logs."""
        return sum(size for _, size in self._segments)

    def events(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[Event]:
        """Check every segment; yields findings and results in order."""
        jobs = worth(self.jobs, self.total)
        found = outcomes(IndexWork(self.checker), self._segments, jobs, advance)
        for (segment, _), outcome in zip(self._segments, found, strict=True):
            if isinstance(outcome, InputError):
                yield outcome
                continue
            try:  # without an outcome, the log is read here, in blocks
                for result in self.checker.check(segment, advance) if outcome is None else outcome:
                    yield from told(result)
            except InputError as error:
                yield error


@dataclass(frozen=True, slots=True)
class IndexWork(Work[Segment, list[Result], None]):
    """Checks the indexes of segments."""

    checker: IndexChecker

    def is_packed(self, item: Segment) -> bool:
        return item.log is not None and is_packable(item.log)

    def together(self, items: Sequence[Segment]) -> list[list[Result] | None]:
        from kfmt_cli.checks.index.packs import check_pack

        healthy = check_pack(items, self.checker.interval)
        return [
            None if known is None else list(self.checker.healthy(segment, known))
            for segment, known in zip(items, healthy, strict=True)
        ]

    def alone(self, item: Segment) -> list[Result]:
        return list(self.checker.check(item, lambda _: None))


def show_lookups(
    run: Run,
    paths: tuple[str, ...],
    column: str,
    target: int,
    wanted: PredictedFor | None = None,
) -> None:
    """Show the lookup of an `OFFSET` or a `TIMESTAMP` in each partition; raises InputError.

    wanted: the version that the user named.
    """
    known: dict[Path, PredictedFor] = {}
    for given in targets(paths, run.complain):
        found = [segment for segment in given.segments() if segment.log is not None]
        folders = sorted({_folder(segment) for segment in found})
        for folder in folders:
            here = [segment for segment in found if _folder(segment) == folder]
            above = partition_folder(folder).parent
            if above not in known:
                known[above] = wanted or version_at(above)
            kafka = known[above]
            lookup = look_up(choose(here, column, target), column, target, kafka.version)
            lines = lookup_lines(lookup, run.host.theme, version_words([kafka]))
            run.sink.document(LOOKUP, {**_row(lookup), **kafka.row}, lines)
            if lookup.batch is None:
                run.host.reached(ExitCode.FINDINGS)
        if not found and not given.unlisted:
            raise InputError(f"{given.path}: no log to search")


def _folder(segment: Segment) -> str:
    return str(Path(segment.any_file.path).parent)


def _row(lookup: Lookup) -> dict[str, object]:
    row = asdict(lookup)
    return {"file": row.pop("log"), **row}
