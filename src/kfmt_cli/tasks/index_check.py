"""index-check: the indexes of segments against their logs; and look-ups, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kfmt_cli.broker.lookup import Lookup, choose, look_up
from kfmt_cli.checks.index.check import IndexChecker
from kfmt_cli.errors import InputError
from kfmt_cli.files.disk import segments, size_of
from kfmt_cli.files.kinds.fixed import TIME_INDEX
from kfmt_cli.files.segment import Segment, sibling_name
from kfmt_cli.render.lookup import lookup_lines
from kfmt_cli.rows.result import Result
from kfmt_cli.tasks.run import Event, Run, Unlisted, Unread, told


@dataclass(slots=True)
class IndexCheck:
    """One call of `index-check`.

    lists_empty: what belongs to empty logs has lines, too. passed_over: counts the files of
    directories that are not looked at, by kind.
    """

    checker: IndexChecker
    lists_empty: bool = True
    passed_over: Counter[str] = field(default_factory=Counter)
    _segments: list[tuple[Segment, int]] = field(default_factory=list)

    def plan(self, paths: tuple[str, ...]) -> Iterator[Unread]:
        """Find the segments of all paths, each once; what cannot be looked at."""
        found: dict[str, Segment] = {}
        for path in paths:
            unread: list[str] = []
            try:
                for segment in segments(path, len(paths) > 1, unread.append, self.passed_over):
                    known = found.setdefault(segment.real_path, segment)
                    known.wanted |= segment.wanted
                    known.given |= segment.given
            except InputError as error:
                unread.append(str(error))
            yield from map(Unread, unread)
        self._segments = [(it, 0 if it.log is None else size_of(it.log)) for it in found.values()]

    @property
    def total(self) -> int:
        """Bytes of all logs."""
        return sum(size for _, size in self._segments)

    def names(self) -> Iterator[str]:
        """The longest names of files that may have a line."""
        for segment, size in self._segments:
            if self._lists(segment, size):
                yield sibling_name(segment.any_file.name, TIME_INDEX)

    def _lists(self, segment: Segment, size: int) -> bool:
        """Whether the files of a segment have lines."""
        return size > 0 or segment.log is None or segment.given or self.lists_empty

    def events(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[Event]:
        """Check every segment; what is found, in their order."""
        for segment, size in self._segments:
            listed = self._lists(segment, size)
            try:
                for result in self.checker.check(segment, advance):
                    yield from _told(result, listed)
            except InputError as error:
                yield Unread(str(error))


def _told(result: Result, listed: bool) -> Iterator[Event]:
    entries = result.numbers["entries"]
    if listed or result.aside or entries or result.errors or result.warnings:
        yield from told(result)
    else:
        yield Unlisted(result)


def show_lookups(
    run: Run, paths: tuple[str, ...], offset: int | None, timestamp: int | None
) -> None:
    """Show the look-up of an offset or a timestamp in each partition; raises InputError."""
    unread: list[str] = []
    for path in paths:
        everything = segments(path, len(paths) > 1, unread.append)
        found = [it for it in everything if it.log is not None]
        folders = sorted({_folder(it) for it in found})
        for folder in folders:
            here = [it for it in found if _folder(it) == folder]
            lookup = look_up(choose(here, offset, timestamp), offset, timestamp)
            run.sink.document("lookup", _row(lookup), lookup_lines(lookup, run.host.theme))
        if not found and not unread:
            raise InputError(f"{path}: no log to look in")
    for words in unread:
        run.complain(words)
    run.sink.flush()


def _folder(segment: Segment) -> str:
    return str(Path(segment.any_file.path).parent)


def _row(lookup: Lookup) -> dict[str, object]:
    row = asdict(lookup)
    return {"file": row.pop("log"), **row}
