"""The file under DST that a line of a dump belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.writing.build.jsonl import Line, wrong

SNAPSHOT_SUFFIX = ".checkpoint"


@dataclass(frozen=True, slots=True)
class Target:
    """A file named in lines."""

    folder: str = ""
    """A single name, or empty."""
    base_offset: int | None = None
    """The base offset of a segment, if its name has one."""
    snapshot: str | None = None
    """The complete name of a KRaft snapshot, None for a log."""

    @property
    def partition(self) -> str:
        """The name of the unit with its own offsets: a partition's log, or one snapshot."""
        return self.folder if self.snapshot is None else f"{self.folder}/{self.snapshot}"


def target_of(line: Line) -> Target:
    """The file that a line names, always under DST; raises LineError."""
    if line.file is None:
        return Target()
    if not line.file.isprintable():
        raise wrong(line, f"{line.file!r} is not a file name")
    path = PurePath(line.file)
    folder = path.parent.name
    folder = "" if folder in ("", ".", "..") else folder
    if kind_of(path.name)[0] is KRAFT_SNAPSHOT:
        stem, _, _ = path.name.partition(SNAPSHOT_SUFFIX)
        return Target(folder, snapshot=stem + SNAPSHOT_SUFFIX)
    digits = path.name.split(".", 1)[0].split("-", 1)[0]
    named = len(digits) == 20 and digits.isascii() and digits.isdigit()
    return Target(folder, int(digits) if named else None)
