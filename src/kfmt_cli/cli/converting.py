"""How `convert-v0-to-v2` goes through a directory, and its report."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.cli.report import Report
from kfmt_cli.cli.screen import Progress, Screen
from kfmt_cli.core.finding import Tally
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.files.discover import (
    FileKind,
    Input,
    classify,
    is_folder,
    printable,
    size_of,
    walk,
)
from kfmt_cli.render.style import count, grouped, safe
from kfmt_cli.writers.convert import Converter
from kfmt_cli.writers.output import Staging, need_room, staged
from kfmt_cli.writers.segment import SegmentWriter

NUMBERS = {"messages": 11, "batches": 9, "batches_after": 13, "bytes": 14, "bytes_after": 14}
SPARE = 1 << 20  # for indexes and folders
LEFT_BEHIND = (".deleted", ".cleaned")  # what a broker is done with
MADE_ANEW = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


@dataclass(slots=True)
class ConvertResult(Tally):
    """What became of a log. left_out: damaged batches that are not in the new one."""

    file: str
    kind: str
    messages: int = 0
    batches: int = 0
    batches_after: int = 0
    bytes: int = 0
    bytes_after: int = 0
    left_out: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0


@dataclass(slots=True)
class Task:
    """One call of `convert-v0-to-v2`."""

    report: Report
    converter: Converter
    skip_damaged: bool
    carried: int = 0
    behind: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, screen: Screen, format_: str, converter: Converter, skip_damaged: bool) -> Task:
        """A task that reports on the screen."""
        report = Report(screen, format_, ConvertResult("", ""), NUMBERS, ("segment", "segments"))
        return cls(report, converter, skip_damaged)

    def run(self, source: str, destination: str) -> int:
        """Convert SRC to DST; the exit code. Raises UsageError, InputError, OutputError."""
        _check(source, destination)
        files = list(_files(source, self.report.complain))
        logs = [it for it in files if it.kind is FileKind.LOG]
        if not logs:
            unread = " that could be read" if self.report.unread else ""
            raise InputError(f"{printable(source)}: no log in it{unread}")
        sizes = {it.path: size_of(it) for it in files}
        need_room(destination, sum(sizes.values()) + SPARE)
        self.report.name_width = max(len("segment"), *(len(safe(it.name)) for it in logs))
        damaged = False
        read = 2 * sum(sizes[it.path] for it in logs)
        with self.report.screen.progress(read) as progress, staged(destination) as staging:
            self.report.left_over(staging.left_over)
            for file in files:
                if file.kind is FileKind.LOG:
                    damaged |= self._convert(staging, file, progress)
                elif Path(file.path).name.endswith(LEFT_BEHIND):
                    self.behind.append(file.name)
                elif file.kind not in MADE_ANEW or not _beside_log(file):
                    _carry(staging, file)
                    self.carried += 1
            if damaged and not self.skip_damaged:
                staging.refuse()
        exit_code = self.report.end()
        self._last_words(destination, damaged and not self.skip_damaged)
        return exit_code

    def _convert(self, staging: Staging, log: Input, progress: Progress) -> bool:
        """Convert a log and read it back; whether something in it is damaged."""
        base = log.base_offset
        if base is None:
            raise InputError(f"{log.name}: its name does not begin with a base offset of 20 digits")
        writer = SegmentWriter(staging, log.name, base)
        try:
            counts = self.converter.convert(log, writer, progress.advance)
            writer.close()
        finally:
            writer.abandon()
        if not counts.damaged or self.skip_damaged:
            self._read_back(staging, log, counts.digest, progress)
        result = ConvertResult(log.name, log.kind.value)
        for name in ("messages", "batches", "batches_after", "left_out"):
            setattr(result, name, getattr(counts, name))
        result.bytes, result.bytes_after = Path(log.path).stat().st_size, writer.size
        result.count(counts.findings)
        self.report.add(result, counts.findings)
        shutil.copystat(log.path, staging.folder / log.name)
        return counts.damaged

    def _read_back(self, staging: Staging, log: Input, digest: bytes, progress: Progress) -> None:
        """Raise OutputError when the new log does not hold the records of the old one."""
        new = classify(str(staging.folder / log.name), log.name)
        if self.converter.digest(new, progress.advance) != digest:
            raise OutputError(
                f"{log.name}: what was written does not read back as what was read; "
                "nothing was kept"
            )

    def _last_words(self, destination: str, refused: bool) -> None:
        screen = self.report.screen
        if self.behind:
            words = count(len(self.behind), "file")
            done_with = "that a broker is done with (.deleted, .cleaned)"
            self.report.note(f"left behind: {words} {done_with}\n")
        if self.report.unread and not refused:
            words = count(self.report.unread, "file or directory", "files or directories")
            self.report.note(f"kfmt: not in {safe(destination)}: {words} that could not be read\n")
        if refused:
            self.report.note(
                f"kfmt: {safe(destination)}: not written, because of the damage; "
                "--skip-damaged leaves out what is damaged\n"
            )
        elif self.report.format == "table":
            total = self.report.totals
            line = (
                f"{grouped(total['bytes'])} bytes became {grouped(total['bytes_after'])}, read "
                f"back and compared; {count(self.carried, 'other file')} carried along"
            )
            screen.text(screen.theme.paint("good", line) + "\n")


def _check(source: str, destination: str) -> None:
    if not Path(source).exists():
        raise InputError(f"{printable(source)}: No such file or directory")
    target = Path(destination)
    if target.exists() or target.is_symlink():
        raise UsageError(f"{printable(destination)}: is there already; DST must be new")
    if Path(source).resolve() in target.resolve().parents:
        raise UsageError(f"{printable(destination)}: lies inside SRC")


def _files(source: str, skip: Callable[[str], None]) -> Iterator[Input]:
    """Everything that is converted or carried along, under its name below DST.

    skip: is told of what could not be looked at.
    """
    if not is_folder(source):
        file = classify(source, Path(source).name)
        if file.kind is not FileKind.LOG:
            raise InputError(f"{printable(source)}: is not named .log")
        yield file
        return

    for folder in walk(source, False, skip):
        for name in folder.files:
            path = Path(folder.path) / name
            try:
                regular = stat.S_ISREG(path.stat().st_mode)
            except OSError as error:
                skip(f"{printable(str(path))}: {error.strerror}")
                continue
            if name == ".lock" or not regular:
                continue
            below = str(Path(folder.below) / name)
            file = classify(str(path), below)
            if name.endswith(".swap"):
                raise InputError(
                    f"{file.name}: a broker was stopped while it replaced segments; start it once "
                    "on a copy, so that it finishes, and convert that"
                )
            if name.endswith(LEFT_BEHIND):
                file = Input(file.path, below, FileKind.UNKNOWN)
            yield Input(file.path, below, file.kind, file.base_offset)


def _beside_log(index: Input) -> bool:
    return Path(index.path).with_suffix(".log").exists()


def _carry(staging: Staging, file: Input) -> None:
    """Copy a file with its times and permissions."""
    out = staging.file(file.name)
    try:
        with Path(file.path).open("rb") as source:
            while data := source.read(1 << 20):
                out.write(data)
        out.close()
    except PermissionError as error:
        raise InputError(f"{file.name}: {error.strerror}") from error
    finally:
        out.abandon()
    shutil.copystat(file.path, staging.folder / file.name)
