"""A segment: a log and the indexes beside it, found by their names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.errors import InputError
from kfmt_cli.files.discover import (
    SUFFIXES,
    FileKind,
    Input,
    classify,
    discover,
    is_folder,
    printable,
    real_path,
)

INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
KINDS = frozenset({FileKind.LOG, *INDEXES})
SUFFIX_OF = {kind: suffix for suffix, kind in SUFFIXES.items()}
_NAME = re.compile(r"^(.*)(\.(?:log|index|timeindex|txnindex))(\.(?:deleted|cleaned|swap))?$")
# Names in the cache of remote storage, which holds indexes of logs that are elsewhere.
_CACHED = re.compile(r"^\d+_")


def sibling_name(name: str, kind: FileKind) -> str:
    """The name of another file of the same segment; only the last component of a path changes."""
    folder, file = os.path.split(name)
    parts = _NAME.match(file)
    assert parts is not None, f"{name} is no file of a segment"
    return str(Path(folder) / f"{parts[1]}{SUFFIX_OF[kind]}{parts[3] or ''}")


@dataclass(slots=True)
class Segment:
    """log: None where only indexes are left. wanted: which of the indexes were asked for.
    is_last: no segment of the partition comes behind it. given: by the name of one of its files."""

    log: Input | None
    indexes: dict[FileKind, Input] = field(default_factory=dict)
    wanted: frozenset[FileKind] = frozenset(INDEXES)
    is_last: bool = True
    given: bool = False

    @property
    def real_path(self) -> str:
        """The same for each way that leads to the segment, and for no other one."""
        file = self.log or next(iter(self.indexes.values()))
        return sibling_name(real_path(file.path), FileKind.LOG)

    @property
    def log_may_be_elsewhere(self) -> bool:
        """Whether the indexes are copies in the cache of remote storage."""
        return all(_CACHED.match(Path(it.path).name) for it in self.indexes.values())


def segments(
    path: str,
    several: bool,
    skip: Callable[[str], None],
    passed_over: Counter[str] | None = None,
) -> Iterator[Segment]:
    """The segments below a directory, or that of the file given; raises InputError.

    skip: is told of each directory that could not be listed. passed_over: counts the directory's
    other files, as `discover` does.
    """
    if path == "-":
        raise InputError(
            "-: an index is checked against the log beside it: standard input is not taken here"
        )
    if is_folder(path):
        groups: dict[tuple[str, str, str], Segment] = {}
        for file in discover(path, KINDS, several, skip, passed_over):
            parts = _NAME.match(Path(file.path).name)
            assert parts is not None
            key = str(Path(file.path).parent), parts[1], parts[3] or ""
            _add(groups.setdefault(key, Segment(None)), file)
        for segment in groups.values():
            _place(segment)
            yield segment
        return
    file = classify(path, path)
    if not Path(path).exists():
        raise InputError(f"{printable(path)}: No such file or directory")
    if file.kind not in KINDS:
        raise InputError(f"{file.name}: is neither a log nor an index")
    segment = Segment(None, given=True)
    parts = _NAME.match(Path(path).name)
    assert parts is not None
    for suffix, kind in SUFFIXES.items():
        sibling = str(Path(path).parent / f"{parts[1]}{suffix}{parts[3] or ''}")
        if kind in KINDS and (sibling == str(Path(path)) or Path(sibling).exists()):
            name = path[: -len(parts[0])] + Path(sibling).name
            _add(segment, classify(sibling, name))
    if file.kind is not FileKind.LOG:
        segment.wanted = frozenset({file.kind})
    _place(segment)
    yield segment


def _add(segment: Segment, file: Input) -> None:
    if file.kind is FileKind.LOG:
        segment.log = file
    else:
        segment.indexes[file.kind] = file


def _place(segment: Segment) -> None:
    """Find out whether there is a later segment in the same folder."""
    file = segment.log or next(iter(segment.indexes.values()))
    if file.base_offset is None:
        return
    folder = Path(file.path).parent
    others = (classify(str(it), it.name) for it in folder.glob("*.log"))
    segment.is_last = not any((it.base_offset or 0) > file.base_offset for it in others)
