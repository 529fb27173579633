"""Outputs that appear complete or not at all.

Everything is written under a temporary name next to its destination, synced to disk, and renamed. A
killed process leaves temporary files, see `writing/unfinished.py`, and nothing under a final name.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path, PurePath
from typing import BinaryIO, TypeVar

from kfmt_cli.core.claims import Claim
from kfmt_cli.core.layout.wire import Buffer
from kfmt_cli.core.urls import is_local, name_text
from kfmt_cli.disk.given import located
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.opening import file_at, is_there, real, status_of
from kfmt_cli.disk.targets import refuse_pipe
from kfmt_cli.disk.tree import listing
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.writing.unfinished import claim_file, claim_folder, take_away

T = TypeVar("T")


class Unfinished(ABC):
    """What is written in a `with` block, and complete at its end; after an error, it is left as it
    is."""

    @abstractmethod
    def close(self) -> None:
        """Complete it."""

    @abstractmethod
    def abandon(self) -> None:
        """Close its files as they are; does nothing after `close`."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.abandon()


class OutputFile(Unfinished):
    """A file being written; raises OutputError. path: its final path, for messages."""

    def __init__(self, path: Path, temporary: Path) -> None:
        self.path = path
        self.size = 0
        with writing(path):
            temporary.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = temporary.open("xb", buffering=1 << 20)

    def write(self, data: Buffer | bytearray) -> None:
        """Append bytes to the file."""
        with writing(self.path):
            self._file.write(data)
        self.size += len(data)

    def close(self) -> None:
        """Sync the file to disk and close it."""
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def abandon(self) -> None:
        with suppress(OSError):  # unwritten data is discarded anyway
            self._file.close()


_TAKEN = {
    None: "already exists; choose another DST",
    False: "already exists; use --force to replace it",
    True: "another run has just written it; run this command again",
}


class Staging:
    """A temporary folder that becomes DST, or whose files are moved into DST.

    force: whether to replace files; None if the command never does, so that DST must be new.
    folder: where to write, with the same relative paths as under DST. left_over: removed leftovers
    of killed runs.
    """

    def __init__(self, destination: str, force: bool | None = None) -> None:
        need_local(destination)
        self.destination = Path(destination)
        self._force = force
        self._refused = False
        parent = self.destination.absolute().parent
        if self.destination.is_symlink() or self.destination.exists():
            if not self.destination.is_dir():
                raise UsageError(f"{destination}: exists and is not a directory")
            if force is None:
                raise UsageError(f"{destination}: {_TAKEN[force]}")
            parent = self.destination  # so that renames stay within one file system
        with writing(self.destination):
            parent.mkdir(parents=True, exist_ok=True)
            # A killed run that made DST has left something next to it.
            parents = {parent, self.destination.absolute().parent}
            self.left_over = [path for each in sorted(parents) for path in take_away(each)]
            self._claim: Claim = claim_folder(parent)
            self.folder = self._claim.inside
        self._whole = parent != self.destination

    def file(self, name: str) -> OutputFile:
        """Create a file under the folder; raises UsageError if DST has one with this name."""
        path = PurePath(name)
        assert not path.is_absolute(), name
        assert ".." not in path.parts, name
        if not self._force and (self.destination / path).exists():
            raise UsageError(f"{self.destination / path}: {_TAKEN[self._force]}")
        return OutputFile(self.destination / path, self.folder / path)

    def put(self, name: str, data: bytes) -> None:
        """Write a complete file under the folder."""
        with self.file(name) as out:
            out.write(data)

    def lift(self, folder: Path) -> None:
        """Move the files of a folder up to the top, for output with only one folder."""
        if folder == Path():
            return
        assert len(folder.parts) == 1, folder
        assert folder.name != "..", folder
        with writing(self.destination):
            for file in list((self.folder / folder).iterdir()):
                file.rename(self.folder / file.name)
            (self.folder / folder).rmdir()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written."""
        return not any(self.folder.iterdir())

    def refuse(self) -> None:
        """Make `commit` publish nothing."""
        self._refused = True

    def commit(self) -> None:
        """Move all files to their destination; raises UsageError if some already exist."""
        if self._refused:
            return
        names = sorted(
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if not path.is_dir()
        )
        taken = [name for name in names if (self.destination / name).exists()]
        if taken and not self._force:
            more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
            raise UsageError(f"{self.destination / taken[0]}{more}: {_TAKEN[self._force]}")
        self._need_no_other_segments(names)
        with writing(self.destination):
            for folder in {
                self.folder,
                *(path for path in self.folder.rglob("*") if path.is_dir()),
            }:
                _sync_folder(folder)
            if self._whole:
                self.folder.chmod(0o777 & ~_umask())
                self._appear()
            else:
                for name in names:
                    target = self.destination / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (self.folder / name).replace(target)
        self._claim.give_up()
        _settle(self.destination, self.destination, self.destination.absolute().parent)

    def _need_no_other_segments(self, names: list[str]) -> None:
        """Raise UsageError if DST has other segments next to new ones: a broker and kfmt would read
        them as one partition."""
        new = {self.destination / name for name in names}
        for folder in {path.parent for path in new if path.suffix == LOG.suffix}:
            for name in listing(str(folder)).files if folder.is_dir() else ():
                if kind_of(name)[1] is not None and folder / name not in new:
                    words = "is of another segment, which --force does not replace"
                    raise UsageError(f"{folder / name}: {words}; remove the old segments first")

    def _appear(self) -> None:
        """Make the folder DST; raises OSError, and UsageError if another run has made DST."""
        try:
            self.folder.rename(self.destination)  # replaces an empty directory only
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise UsageError(f"{self.destination}: {_TAKEN[self._force]}") from error

    def discard(self) -> None:
        """Remove uncommitted files."""
        self._claim.give_up()


@contextmanager
def staged(destination: str, force: bool | None = None) -> Iterator[Staging]:
    """A Staging, committed at the end of the block, or discarded if the block fails."""
    staging = Staging(destination, force)
    try:
        yield staging
        staging.commit()
    finally:
        staging.discard()


def replace_file(path: Path, data: bytes, *, keeps_old: bool = False) -> Path | None:
    """Write a file, or replace it, atomically; raises OutputError. keeps_old: keep a copy of the
    old one, whose path is returned, and its permissions."""
    kept = None
    folder = path.absolute().parent
    with writing(path):
        claim = claim_file(folder)
        try:
            with os.fdopen(os.dup(claim.lock), "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            if keeps_old and path.exists():
                shutil.copymode(path, claim.path)
                # A killed run may have kept it already.
                names = _names_of_old(path)
                kept = next(name for name in names if not name.exists() or name.samefile(path))
                if not kept.exists():
                    os.link(path, kept)
            else:
                claim.path.chmod(0o666 & ~_umask())
            claim.path.replace(path)
        finally:
            claim.give_up()
    _settle(path, folder)
    return kept


def set_aside(path: Path) -> Path | None:
    """Rename a file that should not exist, if it does; returns its new path."""
    if not path.exists():
        return None
    with writing(path):
        kept = next(name for name in _names_of_old(path) if not name.exists())
        path.rename(kept)
    _settle(kept, path.parent)
    return kept


def _names_of_old(path: Path) -> Iterator[Path]:
    """Names for the former file, which brokers ignore."""
    for number in count(1):
        yield path.with_name(f"{path.name}.old{number if number > 1 else ''}")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _settle(path: Path, *folders: Path) -> None:
    """Sync the folders of an output that is complete; warns if the system cannot."""
    try:
        for folder in folders:
            _sync_folder(folder)
    except OSError as error:
        words = f"written, but its directory cannot be synced to disk: {error.strerror}"
        sys.stderr.write(f"kfmt: {name_text(str(path))}: {words}; a power cut may lose it\n")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise OutputError if the system cannot write a file."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def need_local(destination: str) -> None:
    """Raise UsageError for a destination at a URL."""
    if not is_local(destination):
        words = "can only write to local directories; kfmt export writes to URLs"
        raise UsageError(f"{name_text(destination)}: {words}")


def need_room(destination: str, n_bytes: int) -> None:
    """Raise OutputError if the file system of DST has less free space."""
    folder = Path(destination).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        raise OutputError(
            f"{destination}: needs about {n_bytes} bytes, but only {free} are free on its file "
            "system"
        )


def need_new(source: str, destination: str) -> None:
    """Raise InputError if SRC is missing, UsageError if it is standard input, or if DST exists or
    is inside SRC."""
    refuse_pipe(source)
    need_local(destination)
    if not is_there(located(source)):
        raise InputError(f"{name_text(source)}: No such file or directory")
    target = Path(destination)
    if target.exists() or target.is_symlink():
        raise UsageError(f"{name_text(destination)}: already exists; DST must not exist")
    need_apart(destination, [source])


def need_apart(path: str, inputs: Iterable[str]) -> None:
    """Raise UsageError if an output is an input or inside one: inputs are never changed, and a
    broker does not start with a directory in its log directory that is not a partition."""
    place = Path(os.path.realpath(path))
    for given in inputs:
        looked_at = Path(os.path.realpath(given))
        if place == looked_at or looked_at in place.parents:
            words = f"is inside the input {name_text(given)}, which kfmt never writes to"
            raise UsageError(f"{path}: {words}; choose another place")


def carry(staging: Staging, file: Input, name: str) -> None:
    """Copy a file with its times and permissions, or nothing of it if it cannot be read; raises
    InputError. name: its path under DST."""
    try:
        with staging.file(name) as out, file_at(file.path) as source:
            while data := source.read(1 << 20):
                out.write(data)
        copy_times(file.path, staging.folder / name)
    except (InputError, OSError) as error:  # not of the output
        (staging.folder / name).unlink()
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file.name}: cannot be read: {error.strerror}") from error


def copy_times(source: str, to: Path) -> None:
    """Give a file the times of an input, and its permissions if it is on the disk; raises OSError,
    InputError."""
    if (there := real(source)) is not None:
        shutil.copystat(there, to)
    else:
        modified = status_of(source).st_mtime_ns
        os.utime(to, ns=(modified, modified))
