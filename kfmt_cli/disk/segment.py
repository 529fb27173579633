"""A segment: a log and the indexes next to it, found by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kfmt_cli.disk.file_access import is_file
from kfmt_cli.disk.file_names import path_identity
from kfmt_cli.disk.kinds import INDEX_KINDS, classify_name
from kfmt_cli.disk.kinds.kind import FileKind, InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND

SEGMENT_KINDS = frozenset({LOG_KIND, *INDEX_KINDS})
# Names in the cache of remote storage, which contains indexes of logs stored elsewhere.
_REMOTE_CACHE_NAME = re.compile(r"^\d+_")


@dataclass(slots=True)
class Segment:
    """A log and the indexes next to it, found by their names."""

    log: InputFile | None
    """None if only indexes are left."""
    index_by_kind: dict[FileKind, InputFile] = field(default_factory=dict)
    requested_index_kinds: frozenset[FileKind] = frozenset(INDEX_KINDS)
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
        return self.log or next(iter(self.index_by_kind.values()))

    @property
    def identity_path(self) -> str:
        """The same path for every path to the segment, and for no other segment."""
        file = self.any_file
        real_path = path_identity(file.path, file.may_be_link)
        has_segment_name = classify_name(real_path.rpartition(os.sep)[2])[0] in SEGMENT_KINDS
        # A link may lead to any name.
        return segment_file_path(real_path, LOG_KIND) if has_segment_name else real_path

    @property
    def is_remote_index_cache(self) -> bool:
        """Whether the indexes are copies in the cache of remote storage."""
        return all(
            _REMOTE_CACHE_NAME.match(Path(index.path).name) for index in self.index_by_kind.values()
        )


def segment_file_path(path: str, kind: FileKind) -> str:
    """The path of another file of the same segment; only the last component changes.

    path: the path that opens a file; its display name may have another suffix.
    """
    directory, file_name = os.path.split(path)
    own_kind, _, bare_suffix = classify_name(file_name)
    assert own_kind in SEGMENT_KINDS, f"{path} is not a segment file"
    transient_suffix = f".{bare_suffix}" if bare_suffix else ""
    stem = file_name.removesuffix(transient_suffix).removesuffix(own_kind.suffix)
    return os.path.join(directory, f"{stem}{kind.suffix}{transient_suffix}")  # noqa: PTH118 (as it was written)


def find_current_segment(segment: Segment) -> Segment:
    """A segment that has a log, with the indexes that are next to it now."""
    log = segment.required_log
    index_by_kind = {}
    for kind in INDEX_KINDS:
        path = segment_file_path(log.path, kind)
        if is_file(path):
            name = segment_file_path(log.name, kind)
            index_by_kind[kind] = segment.index_by_kind.get(kind) or replace(
                log, path=path, name=name, kind=kind
            )
    return replace(segment, index_by_kind=index_by_kind)


def group_segments(files: Iterable[InputFile]) -> list[Segment]:
    """The segments of a directory's files, in the order of their names.

    Leftover and unfinished files form segments of their own.
    """
    segment_by_name_and_suffix: dict[tuple[str, str], Segment] = {}
    max_base_offset = -1
    for file in files:
        if file.kind not in SEGMENT_KINDS:
            continue
        file_name = file.path.rpartition(os.sep)[2]
        transient_suffix = classify_name(file_name)[2]
        base_name = file_name.removesuffix(f".{transient_suffix}").removesuffix(file.kind.suffix)
        segment = segment_by_name_and_suffix.setdefault(
            (base_name, transient_suffix), Segment(None)
        )
        if file.kind is LOG_KIND:
            segment.log = file
            max_base_offset = (
                max_base_offset
                if transient_suffix
                else max(max_base_offset, file.base_offset_or_zero)
            )
        else:
            segment.index_by_kind[file.kind] = file
    for segment in segment_by_name_and_suffix.values():
        base_offset = segment.any_file.base_offset
        segment.is_last = base_offset is None or base_offset >= max_base_offset
    return list(segment_by_name_and_suffix.values())
