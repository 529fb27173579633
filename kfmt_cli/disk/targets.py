"""The files and directories at the paths that a user gives.

Every command that takes paths uses this module. A missing path, standard input, a directory without
logs and one that cannot be listed therefore behave the same everywhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from kfmt_cli.core.compressed_files import packed_suffix
from kfmt_cli.core.source import PIPE
from kfmt_cli.core.urls import is_local, name_text
from kfmt_cli.disk.given import file_given, folders_at, is_tiered, located, troubles
from kfmt_cli.disk.kinds import UNKNOWN
from kfmt_cli.disk.kinds.kind import Input, Kind
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import identity, left_out_words, mark_of
from kfmt_cli.disk.opening import is_folder, status_of
from kfmt_cli.disk.redpanda import REDPANDA, is_redpanda_directory, is_redpanda_log
from kfmt_cli.disk.segment import SEGMENT_KINDS, Segment
from kfmt_cli.disk.tree import (
    Folder,
    every_input,
    inputs_in,
    is_of_broker,
    listing,
    no_log,
)
from kfmt_cli.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class GivenPath:
    """A path given by the user, with the files there."""

    path: str
    """As it was given."""
    file: Input | None = None
    """The file; None for a directory."""
    folders: list[Folder] = field(default_factory=list)
    """The directory and those under it that a broker would use."""
    unlisted: list[str] = field(default_factory=list)
    """Messages about what could not be listed or put together."""

    def in_use(self, tell: Callable[[str], None]) -> GivenPath:
        """The same without the marked directories under it: copies, or data that a broker has set
        aside. tell: receives a note about them."""
        marked = [folder for folder in self.folders if self._is_marked(folder)]
        if not marked:
            return self
        words = left_out_words([folder.path for folder in marked])
        tell(f"{name_text(self.path)}: {words}\n")
        used = [folder for folder in self.folders if not self._is_marked(folder)]
        return replace(self, folders=used)

    def _is_marked(self, folder: Folder) -> bool:
        return folder.path != self.path and mark_of(Path(folder.path).name) != ""

    def inputs(self, kinds: frozenset[Kind] | None) -> Iterator[Input]:
        """The file, or the files of some kinds in the directory; raises InputError if there are
        none.

        kinds: None for all files. Otherwise leftover and unfinished files are skipped unless named.
        """
        if self.file is not None:
            yield self.file
            return
        folders = self.folders
        chosen = every_input(folders) if kinds is None else inputs_in(folders, kinds)
        found = list(chosen)
        if all(file.kind is UNKNOWN for file in found) and not self.unlisted:
            raise InputError(no_log(self.path))
        yield from found

    def segments(self, passed_over: Counter[str] | None = None) -> Iterator[Segment]:
        """The segments in the directory, or the file's segment; raises InputError if none.

        passed_over: counts the directory's other files, like `inputs_in`.
        """
        if self.file is not None:
            yield self._segment_of(self.file)
            return
        # Count the skipped files, including any that are not part of a segment.
        n_files = sum(1 for _ in inputs_in(self.folders, SEGMENT_KINDS, passed_over))
        if not n_files and not self.unlisted:
            raise InputError(no_log(self.path))
        for folder in self.folders:
            yield from folder.used_segments

    def _segment_of(self, file: Input) -> Segment:
        """The segment of a file given by the user."""
        if file.kind not in SEGMENT_KINDS:
            raise InputError(f"{file.name}: neither a log nor an index")
        if packed_suffix(file.path):
            return Segment(file, wanted=frozenset(), given=True)
        folder = folder_beside(file.path)
        name = Path(file.path).name
        segment = next((segment for segment in folder.segments if name in _names(segment)), None)
        if segment is None:
            raise InputError(f"{file.name}: not a regular file")
        segment.given = True
        if file.kind is LOG:
            segment.log = file  # with its name
        else:
            segment.wanted = frozenset({file.kind})
        return segment


def refuse_pipe(*paths: str) -> None:
    """Raise UsageError if standard input is among the paths."""
    if PIPE in paths:
        raise UsageError("-: this command cannot read standard input")


def target_of(path: str, *, takes_pipe: bool = False) -> GivenPath:
    """The files at a path.

    takes_pipe: - is standard input. Raises InputError if the path does not exist or is Redpanda's,
    UsageError for - if the command cannot read it.
    """
    if not takes_pipe:
        refuse_pipe(path)
    if path and path != PIPE:
        path = located(path)
    if path and is_folder(path):
        unlisted: list[str] = []
        folders = folders_at(path, unlisted.append)
        is_kafka = any(is_of_broker(file) for folder in folders for file in folder.files)
        if not is_kafka and is_redpanda_directory(path):
            raise InputError(f"{name_text(path)}: {REDPANDA}")
        unlisted = list(dict.fromkeys([*troubles(path), *unlisted]))
        return GivenPath(path, None, folders, unlisted)
    if not path or (path != PIPE and _is_missing(path)):
        if why := troubles(path):
            raise InputError(why[0])
        words = f"{name_text(path)}: No such file or directory"
        raise InputError(words, file=path, is_gone=True)
    if is_redpanda_log(Path(path).name):
        raise InputError(f"{name_text(path)}: {REDPANDA}")
    file = file_given(path)
    return GivenPath(path, file, unlisted=troubles(path))


def normalized(path: str) -> str:
    """A path that does not end with .., whose parent a path does not show."""
    if not is_local(path):
        return path
    if path.rpartition(os.sep)[2] == os.pardir and os.path.lexists(path):
        return os.path.realpath(path)
    return path and str(Path(path))


def listed(paths: Iterable[str]) -> tuple[GivenPath | str, ...]:
    """The files at each path, for several calls of `targets`; a path that cannot be listed is left
    as it is."""
    found: list[GivenPath | str] = []
    for path in map(normalized, paths):
        try:
            found.append(target_of(path))
        except InputError:
            found.append(path)
    return tuple(found)


def targets(
    paths: Sequence[GivenPath | str],
    complain: Callable[[str], None],
    *,
    takes_pipe: bool = False,
    copies: bool = False,
) -> Iterator[GivenPath]:
    """The files at each path, each directory once; raises UsageError.

    complain: receives errors about missing paths, Redpanda's data and directories that cannot be
    listed. copies: with the tiered segments that local directories also contain.
    """
    if not takes_pipe:
        refuse_pipe(*(path for path in paths if isinstance(path, str)))
    found = _listed(paths, complain, takes_pipe=takes_pipe)
    yield from found if copies else without_doubles(found)


def without_doubles(found: Iterable[GivenPath]) -> Iterator[GivenPath]:
    """The same without the segments put together from tiered storage that local directories of
    their partitions also contain: a tiered one waits for those at all paths."""
    rest, before = iter(found), list[Folder]()
    for target in rest:
        if not any(is_tiered(folder.path) for folder in target.folders):
            before += target.folders
            yield target
            continue
        held = [target, *rest]
        local = _begins(chain(before, *(each.folders for each in held)))
        for each in held:
            left = (_alone(folder, local) for folder in each.folders)
            folders = [folder for folder in left if folder is not None]
            if len(folders) == len(each.folders) or any(folder.logs for folder in folders):
                yield replace(each, folders=folders)


def _begins(folders: Iterable[Folder]) -> dict[str, int]:
    """The first offset in the directories that are not tiered, by name."""
    found: dict[str, int] = {}
    for folder in folders:
        if not is_tiered(folder.path) and (logs := folder.logs):
            name, base = Path(folder.path).name, logs[0].base
            found[name] = min(base, found.get(name, base))
    return found


def _alone(folder: Folder, local: Mapping[str, int]) -> Folder | None:
    """A directory without the files that a local one has; None if that has all segments. local:
    where those begin, by name."""
    least = local.get(Path(folder.path).name)
    if least is None or not is_tiered(folder.path):
        return folder
    files = (file for file in folder.files if not _is_from(file, least))
    left = replace(folder, files=tuple(files))
    return left if left.logs else None


def _is_from(file: str, least: int) -> bool:
    """Whether a file's name begins with an offset that is not below `least`."""
    stem = file.partition(".")[0]
    return stem.isdigit() and int(stem) >= least


def _listed(
    paths: Sequence[GivenPath | str], complain: Callable[[str], None], *, takes_pipe: bool
) -> Iterator[GivenPath]:
    seen: set[str] = set()
    is_alone = len(paths) == 1
    for path in paths:
        try:
            target = path if isinstance(path, GivenPath) else target_of(path, takes_pipe=takes_pipe)
        except InputError as error:
            complain(str(error))
            continue
        real = identity(target.path)
        if real in seen and target.path != PIPE:
            continue
        seen.add(real)
        for words in target.unlisted:
            complain(words)
        left = target if is_alone else _not_before(target, seen)
        if left is target or left.unlisted or any(folder.is_of_kafka for folder in left.folders):
            yield left


def _not_before(target: GivenPath, seen: set[str]) -> GivenPath:
    """A path without the directories that another one leads to, which were seen."""
    new: list[Folder] = []
    for folder in target.folders:
        its = identity(folder.path)
        if folder.path == target.path or its not in seen:
            new.append(folder)
        if not target._is_marked(folder):  # it must be named to be read
            seen.add(its)
    return target if len(new) == len(target.folders) else replace(target, folders=new)


def folder_beside(path: str) -> Folder:
    """The directory of a file, with its files named in the same way; raises InputError."""
    top, name = os.path.split(path)
    return listing(top or os.curdir, path.removesuffix(name))


def _is_missing(path: str) -> bool:
    """Whether a path is missing; other errors are reported on opening."""
    try:
        status_of(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # also a name with a zero byte
        return True
    except OSError:
        return False
    return False


def _names(segment: Segment) -> set[str]:
    files = [*segment.indexes.values(), *([segment.log] if segment.log else [])]
    return {Path(file.path).name for file in files}
