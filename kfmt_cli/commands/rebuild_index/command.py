"""rebuild-index: writes the files that log recovery writes, under DST or next to the logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.commands.log_settings import interval_of
from kfmt_cli.commands.run import Progress, Run, told
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import SWAP, Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import offset_of_name
from kfmt_cli.disk.opening import is_on_disk
from kfmt_cli.disk.targets import targets
from kfmt_cli.disk.tree import listing, size_of
from kfmt_cli.errors import Caught, InputError, UsageError
from kfmt_cli.findings.finding import has_errors
from kfmt_cli.render.style import safe
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.writing.in_use import check_unused
from kfmt_cli.writing.output import Staging, need_apart, replace_file, set_aside, staged
from kfmt_cli.writing.rebuild import How, Rebuilt, rebuild
from kfmt_cli.writing.unfinished import take_away

INDEXES = (OFFSET_INDEX.suffix, TIME_INDEX.suffix)
NOT_IN_PLACE = (
    "--in-place: files at a URL or in an archive cannot be changed, nor compressed or tiered ones"
)
REBUILT = ResultType(("bytes", "batches", "entries"), {"entries": 9, "batches": 9, "bytes": 14})


_AS_STARTED = "damaged: these are the files that a start after a crash would leave"
_AS_THEY_ARE = (
    "damaged: these are the indexes of all segments up to their damage; --as-started writes what a "
    "start after a crash would leave"
)


@dataclass(slots=True)
class Rebuild:
    """One call of `rebuild-index`."""

    run: Run
    interval: int | None
    """index.interval.bytes; None for each topic's own."""
    force: bool
    all_files: bool
    expired_before: int | None = None
    """Expire producers that wrote nothing after this time in milliseconds."""
    as_started: bool = False
    """Write what a start after a crash leaves."""
    _whole: set[Path] = field(default_factory=set)
    _is_damaged: bool = False

    def rebuild(self, paths: tuple[str, ...], to: str | None) -> None:
        """Rebuild under the directory `to`; next to the logs if None."""
        partitions = list(self._partitions(paths, to))
        logs = [log for _, group in partitions for log in group]
        self.run.sink.results(REBUILT)
        total = sum(map(size_of, logs))
        with self.run.host.progress(total) as progress:
            is_beside = to is not None and self._is_beside(to, partitions)
            if to is not None and not is_beside:
                need_apart(to, [*paths, *(str(Path(log.path).parent) for log in logs)])
            if to is None or is_beside:
                for _, group in partitions:
                    self._in_place(group, progress)
            elif partitions:
                with staged(to, self.force) as staging:
                    self.run.left_over(staging.left_over)
                    for folder, group in partitions:
                        for done in self._rebuilt(group, progress):
                            self._below(staging, folder, done)
                    if staging.is_empty:
                        staging.refuse()
        self.run.end()
        if self._is_damaged:
            self.run.sink.remark(_AS_STARTED if self.as_started else _AS_THEY_ARE)

    def _is_beside(self, to: str, partitions: list[tuple[str, list[Input]]]) -> bool:
        """Whether DST contains the logs; then sets all_files. Raises UsageError unless files may be
        replaced."""
        below = (Path(os.path.realpath(Path(to, folder))) for folder, _ in partitions)
        folders = {Path(os.path.realpath(Path(group[0].path).parent)) for _, group in partitions}
        is_any = any(path in folders for path in below)
        if is_any and not self.force:
            raise UsageError(f"{to}: has the logs; use --in-place")
        self.all_files |= is_any
        return is_any

    def _partitions(
        self, paths: tuple[str, ...], to: str | None
    ) -> Iterator[tuple[str, list[Input]]]:
        """The folder under DST of each partition, and its logs; raises UsageError if two have the
        same one."""
        found: dict[tuple[str, str], list[Input]] = {}
        given = list(targets(paths, self.run.complain))
        n_folders = sum(target.file is None for target in given)
        for target in given:
            with self.run.complaining():
                for log in target.inputs(frozenset({LOG})):
                    if log.kind is not LOG:
                        raise InputError(f"{log.name}: not a .log file")
                    below = ""
                    if target.file is None:
                        self._whole.add(Path(log.path).parent)
                        below = str(Path(log.path).parent.relative_to(target.path))
                        if n_folders > 1:
                            below = str(Path(Path(target.path).name) / below)
                    key = str(Path(log.path).parent), below
                    found.setdefault(key, []).append(log)
        taken: dict[str, str] = {}
        for (folder, below), logs in found.items():
            if to is None and not is_on_disk(folder):
                raise UsageError(f"{name_text(folder)}: {NOT_IN_PLACE}")
            if taken.setdefault(below, folder) != folder and to is not None:
                words = f"is written to {below}, and so is {name_text(taken[below])}"
                raise UsageError(f"{name_text(folder)}: {words}; rebuild them one by one")
            yield below, sorted(logs, key=lambda log: log.base)

    def _rebuilt(self, logs: list[Input], progress: Progress) -> Iterator[Rebuilt]:
        left = list(logs)
        with Caught(lambda error: self._stopped(error, left)):
            interval = self.interval
            if interval is None:
                interval = interval_of(Path(logs[0].path).parent)
            how = How(interval, self.expired_before, is_damage_cut=True, as_started=self.as_started)
            for done in rebuild(logs, how, progress.advance, swaps=self._swaps(logs)):
                numbers = {"bytes": done.size, "batches": done.batches, "entries": done.entries}
                result = Result(REBUILT, done.log.name, done.log.kind.name, numbers)
                result.take(done.findings)
                self._is_damaged |= not done.is_kept
                del left[0]
                yield done
                self.run.all(told(result))

    def _stopped(self, error: InputError, left: list[Input]) -> None:
        """Report a log that cannot be read: the producers of later ones depend on it."""
        self.run.complain(str(error))
        if len(left) > 1:
            words = f"neither this segment nor the {len(left) - 1} after it were rebuilt"
            self.run.sink.note(f"{safe(left[0].name)}: {words}\n")

    def _swaps(self, logs: list[Input]) -> list[Input]:
        """Completed .swap files of a partition whose directory was given, and the logs that a
        broker would rename; raises InputError."""
        path = Path(logs[0].path).parent
        if path not in self._whole:
            return []
        folder = listing(str(path), prefix="")
        swaps = [folder.input(name) for name in folder.readable if name.endswith(SWAP)]
        others = [folder.input(name) for name in folder.readable if name.endswith(LOG.suffix)]
        renamed = [
            log
            for log in others
            if log.base_offset is None and offset_of_name(log.name) is not None
        ]
        return swaps + renamed

    @staticmethod
    def _below(staging: Staging, folder: str, done: Rebuilt) -> None:
        for name, data in done.files.items():
            if data is not None:
                staging.put(str(Path(folder) / name), data)

    def _in_place(self, group: list[Input], progress: Progress) -> None:
        """Replace the files of one partition; raises UsageError if a broker uses it."""
        folder = Path(group[0].path).parent
        if not self.force:
            check_unused(folder)
        self.run.left_over(take_away(folder))
        sizes = {file.path: size_of(file) for file in group}
        for done in self._rebuilt(group, progress):
            if size_of(done.log) != sizes[done.log.path] and not self.force:
                raise UsageError(
                    f"{done.log.name}: the log grew while it was being read, so a broker is "
                    "probably writing to it; use --force to replace its indexes anyway"
                )
            if not self.force and has_errors(done.findings):
                words = (
                    "the log is damaged; a rebuilt index would end at the damage, while the "
                    "existing one may reach beyond it. Not replaced; use --force to replace it "
                    "anyway"
                )
                self.run.complain(f"{done.log.name}: {words}")
                continue
            self._beside(done)

    def _beside(self, done: Rebuilt) -> None:
        """Replace files that differ, leaving correct ones untouched."""
        for name, data in done.files.items():
            path = Path(done.log.path).with_name(name)
            if data == (path.read_bytes() if path.exists() else None):
                continue
            if not self.all_files and not name.endswith(INDEXES):
                what = "is missing" if not path.exists() else "does not match the log"
                words = f"{what}; use --all-files to write it as well"
                self.run.sink.note(f"{safe(str(path))}: {words}\n")
                continue
            kept = set_aside(path) if data is None else replace_file(path, data, keeps_old=True)
            if kept is not None:
                self.run.sink.note(
                    f"{safe(str(path))}: previous version kept as {safe(kept.name)}\n"
                )
