"""A segment: a log and the indexes next to it, found by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.disk.kinds import INDEXES, kind_of
from kfmt_cli.disk.kinds.kind import Input, Kind
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import identity

SEGMENT_KINDS = frozenset({LOG, *INDEXES})
# Names in the cache of remote storage, which contains indexes of logs stored elsewhere.
_CACHED = re.compile(r"^\d+_")


@dataclass(slots=True)
class Segment:
    """A log and the indexes next to it, found by their names."""

    log: Input | None
    """None if only indexes are left."""
    indexes: dict[Kind, Input] = field(default_factory=dict)
    wanted: frozenset[Kind] = frozenset(INDEXES)
    """The indexes requested."""
    is_last: bool = True
    """Whether no segment of the partition comes after it."""
    given: bool = False
    """Whether one of its files was named by the user."""

    @property
    def own_log(self) -> Input:
        """Its log, where there must be one."""
        assert self.log is not None
        return self.log

    @property
    def any_file(self) -> Input:
        """The log, or one of its indexes."""
        return self.log or next(iter(self.indexes.values()))

    @property
    def real_path(self) -> str:
        """A path that is the same for every path to the segment, and for no other segment."""
        file = self.any_file
        real = identity(file.path, file.may_be_link)
        is_named = kind_of(real.rpartition(os.sep)[2])[0] in SEGMENT_KINDS
        return sibling_path(real, LOG) if is_named else real  # a link may lead to any name

    @property
    def log_may_be_elsewhere(self) -> bool:
        """Whether the indexes are copies in the cache of remote storage."""
        return all(_CACHED.match(Path(index.path).name) for index in self.indexes.values())


def sibling_path(path: str, kind: Kind) -> str:
    """The path of another file of the same segment; only the last component changes.

    path: the one that opens a file; that for display may have another ending.
    """
    folder, file = os.path.split(path)
    known, _, transient = kind_of(file)
    assert known in SEGMENT_KINDS, f"{path} is not a segment file"
    end = f".{transient}" if transient else ""
    stem = file.removesuffix(end).removesuffix(known.suffix)
    return os.path.join(folder, f"{stem}{kind.suffix}{end}")  # noqa: PTH118 (as it was written)


def group(files: Iterable[Input]) -> list[Segment]:
    """The segments of a directory's files, in the order of their names.

    Leftover and unfinished files form segments of their own.
    """
    found: dict[tuple[str, str], Segment] = {}
    last = -1
    for file in files:
        if file.kind not in SEGMENT_KINDS:
            continue
        name = file.path.rpartition(os.sep)[2]
        transient = kind_of(name)[2]
        stem = name.removesuffix(f".{transient}").removesuffix(file.kind.suffix)
        segment = found.setdefault((stem, transient), Segment(None))
        if file.kind is LOG:
            segment.log = file
            last = last if transient else max(last, file.base)
        else:
            segment.indexes[file.kind] = file
    for each_segment in found.values():
        base = each_segment.any_file.base_offset
        each_segment.is_last = base is None or base >= last
    return list(found.values())
