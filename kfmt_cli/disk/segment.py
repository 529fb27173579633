"""A segment: a log and the indexes next to it, found by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.kinds import INDEX_KINDS, classify_name
from kfmt_cli.disk.kinds.kind import InputFile, Kind
from kfmt_cli.disk.kinds.logs import LOG_KIND

SEGMENT_KINDS = frozenset({LOG_KIND, *INDEX_KINDS})
# Names in the cache of remote storage, which contains indexes of logs stored elsewhere.
_REMOTE_CACHE_NAME = re.compile(r"^\d+_")


@dataclass(slots=True)
class Segment:
    """A log and the indexes next to it, found by their names."""

    log: InputFile | None
    """None if only indexes are left."""
    indexes: dict[Kind, InputFile] = field(default_factory=dict)
    index_kinds: frozenset[Kind] = frozenset(INDEX_KINDS)
    """The kinds of indexes to read."""
    is_last: bool = True
    """Whether no segment of the partition comes after it."""
    is_explicit: bool = False
    """Whether one of its files was named by the user."""

    @property
    def required_log(self) -> InputFile:
        """The log of a segment that must have one."""
        assert self.log is not None
        return self.log

    @property
    def any_file(self) -> InputFile:
        """The log, or one of its indexes."""
        return self.log or next(iter(self.indexes.values()))

    @property
    def identity(self) -> str:
        """The same path for every path to the segment, and for no other segment."""
        file = self.any_file
        path = path_identity(file.path, file.may_be_link)
        has_segment_name = classify_name(path.rpartition(os.sep)[2])[0] in SEGMENT_KINDS
        # A link may lead to any name.
        return segment_file_path(path, LOG_KIND) if has_segment_name else path

    @property
    def is_remote_index_cache(self) -> bool:
        """Whether the indexes are copies in the cache of remote storage."""
        return all(
            _REMOTE_CACHE_NAME.match(Path(index.path).name) for index in self.indexes.values()
        )


def segment_file_path(path: str, kind: Kind) -> str:
    """The path of another file of the same segment; only the last component changes.

    path: the path that opens a file; its display name may have another suffix.
    """
    directory, name = os.path.split(path)
    own_kind, _, transient = classify_name(name)
    assert own_kind in SEGMENT_KINDS, f"{path} is not a segment file"
    transient_suffix = f".{transient}" if transient else ""
    base_name = name.removesuffix(transient_suffix).removesuffix(own_kind.suffix)
    return os.path.join(directory, f"{base_name}{kind.suffix}{transient_suffix}")  # noqa: PTH118 (as it was written)


def group_segments(files: Iterable[InputFile]) -> list[Segment]:
    """The segments of a directory's files, in the order of their names.

    Leftover and unfinished files form segments of their own.
    """
    segment_by_name: dict[tuple[str, str], Segment] = {}
    last_base_offset = -1
    for file in files:
        if file.kind not in SEGMENT_KINDS:
            continue
        name = file.path.rpartition(os.sep)[2]
        transient_suffix = classify_name(name)[2]
        base_name = name.removesuffix(f".{transient_suffix}").removesuffix(file.kind.suffix)
        segment = segment_by_name.setdefault((base_name, transient_suffix), Segment(None))
        if file.kind is LOG_KIND:
            segment.log = file
            last_base_offset = (
                last_base_offset if transient_suffix else max(last_base_offset, file.base_or_zero)
            )
        else:
            segment.indexes[file.kind] = file
    for segment in segment_by_name.values():
        base_offset = segment.any_file.base_offset
        segment.is_last = base_offset is None or base_offset >= last_base_offset
    return list(segment_by_name.values())
