"""convert-v0-to-v2: rewrites logs, reads them back and copies all other files."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.commands.run import Progress, Run, told
from kfmt_cli.core.compressed_files import WHOLLY_PACKED, packed_suffix
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import UNKNOWN
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import LEFT_BEHIND, SWAP, Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.opening import is_there, status_of
from kfmt_cli.disk.segment import sibling_path
from kfmt_cli.disk.targets import target_of
from kfmt_cli.disk.tree import classify, size_of
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.render.style import count, grouped, safe
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.writing.convert.converter import Converter
from kfmt_cli.writing.output import Staging, carry, copy_times, need_new, need_room, staged
from kfmt_cli.writing.segment_writer import SegmentWriter

COUNTED = ("messages", "batches", "batches_after", "left_out")
CONVERTED = ResultType(
    ("messages", "batches", "batches_after", "bytes", "bytes_after", "left_out"),
    {"messages": 11, "batches": 9, "batches_after": 13, "bytes": 14, "bytes_after": 14},
)
SPARE = 1 << 20  # for indexes and folders
MADE_ANEW = (OFFSET_INDEX, TIME_INDEX)


@dataclass(slots=True)
class Convert:
    """One call of `convert-v0-to-v2`."""

    run: Run
    converter: Converter
    skip_damaged: bool
    carried: int = 0
    left: list[str] = field(default_factory=list)

    def convert(self, source: str, destination: str) -> None:
        """Convert SRC to DST; raises UsageError, InputError, OutputError."""
        need_new(source, destination)
        run = self.run
        files = list(_files(source, run.complain))
        logs = [file for file, _ in files if file.kind is LOG]
        if not logs:
            unread = " that could be read" if run.summary.unread else ""
            raise InputError(f"{name_text(source)}: no log segments{unread}")
        sizes = {file.path: size_of(file) for file, _ in files}
        need_room(destination, sum(sizes.values()) + SPARE)
        run.sink.results(CONVERTED)
        damaged = False
        read = 2 * sum(sizes[log.path] for log in logs)
        with run.host.progress(read) as progress, staged(destination) as staging:
            run.left_over(staging.left_over)
            for file, below in files:
                if file.kind is LOG:
                    damaged |= self._convert(staging, file, below, progress)
                elif Path(file.path).name.endswith(LEFT_BEHIND):
                    self.left.append(file.name)
                elif file.kind not in MADE_ANEW or not is_there(sibling_path(file.path, LOG)):
                    carry(staging, file, below)
                    self.carried += 1
            if damaged and not self.skip_damaged:
                staging.refuse()
        run.end()
        self._last_words(destination, damaged and not self.skip_damaged)

    def _convert(self, staging: Staging, log: Input, below: str, progress: Progress) -> bool:
        """Convert a log and read it back; returns whether it is damaged. below: path under DST."""
        base = log.base_offset
        if base is None:
            raise InputError(
                f"{log.name}: the file name does not start with a 20-digit base offset"
            )
        with SegmentWriter(staging, below, base) as writer:
            counts = self.converter.convert(log, writer, progress.advance)
        if not counts.damaged or self.skip_damaged:
            self._read_back(staging.folder / below, log, counts.digest, progress)
        numbers: dict[str, int | None] = {name: getattr(counts, name) for name in COUNTED}
        numbers |= {"bytes": size_of(log), "bytes_after": writer.size}
        result = Result(CONVERTED, log.name, log.kind.name, numbers)
        result.take(counts.findings)
        self.run.all(told(result))
        copy_times(log.path, staging.folder / below)
        return counts.damaged

    def _read_back(self, made: Path, log: Input, digest: bytes, progress: Progress) -> None:
        """Raise OutputError if the new log's records differ from the old log's."""
        new = classify(str(made), log.name)
        if self.converter.convert(new, None, progress.advance).digest != digest:
            raise OutputError(
                f"{log.name}: verification failed: the output differs from the input; nothing was "
                "written"
            )

    def _last_words(self, destination: str, refused: bool) -> None:
        sink, summary = self.run.sink, self.run.summary
        if self.left:
            words = count(len(self.left), "file")
            done_with = f"that a broker has finished with ({', '.join(LEFT_BEHIND)})"
            sink.note(f"not copied: {words} {done_with}\n")
        if summary.unread and not refused:
            words = count(summary.unread, "file or directory", "files or directories")
            sink.note(f"kfmt: {safe(destination)} lacks {words} that could not be read\n")
        if refused:
            sink.note(
                f"kfmt: {safe(destination)} not written because of damage; use --skip-damaged to "
                "drop damaged batches\n"
            )
            return
        total = summary.totals
        sink.remark(
            f"{grouped(total['bytes'])} bytes converted to {grouped(total['bytes_after'])} and "
            f"verified; {count(self.carried, 'other file')} copied",
            "good",
        )


def _files(source: str, skip: Callable[[str], None]) -> Iterator[tuple[Input, str]]:
    """Every file to convert or copy, with its path under DST.

    skip: called with a message for each unreadable file or directory.
    """
    target = target_of(source)
    for words in target.unlisted:
        skip(words)
    if target.file is not None:
        if target.file.kind is not LOG:
            raise InputError(f"{target.file.name}: not a .log file")
        if packed_suffix(source):
            raise InputError(f"{target.file.name}: {WHOLLY_PACKED}")
        yield target.file, Path(source).name
        return
    for folder in target.folders:
        for name in folder.files:
            path = folder.input(name).path
            try:
                regular = stat.S_ISREG(status_of(path).st_mode)
            except OSError as error:
                skip(f"{name_text(path)}: {error.strerror}")
                continue
            if name == ".lock" or not regular:
                continue
            below = str(Path(folder.below) / name)
            file = folder.input(name)
            if name.endswith(SWAP):
                raise InputError(
                    f"{file.name}: left by an interrupted segment replacement; start a broker once "
                    "on a copy to finish it, then convert the copy"
                )
            if name.endswith(LEFT_BEHIND):
                file = Input(file.path, file.name, UNKNOWN)
            yield file, below
