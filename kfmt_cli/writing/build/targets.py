"""Which file below DST a line of a dump belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.writing.build.jsonl import Line, wrong

SNAPSHOT_SUFFIX = ".checkpoint"


@dataclass(frozen=True, slots=True)
class Target:
    """A file that lines name."""

    folder: str = ""
    """One plain name, or none."""
    base_offset: int | None = None
    """Of a segment, where the name has one."""
    snapshot: str | None = None
    """The whole name of a KRaft snapshot, None for a log."""

    @property
    def partition(self) -> str:
        """What has offsets of its own: the log of a partition, or one snapshot."""
        return self.folder if self.snapshot is None else f"{self.folder}/{self.snapshot}"


def target_of(line: Line) -> Target:
    """The file that a line names; raises LineError. What is written stays below DST."""
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
