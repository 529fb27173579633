"""The effect on a start of directories, pipes and broken links in place of a broker's files.

Java's `File.isFile` is false for all of them, so a broker does not list them; `File.exists` is true
for a directory and a pipe. The effect of opening one depends on why it is opened, as observed on
Kafka 3.9.1 and 4.4.0 (`tests/interop/test_not_files.py`). Source: `LogLoader`,
`LogSegment.sanityCheck`, `AbstractIndex`, `TransactionIndex`, `ProducerStateManager.writeSnapshot`,
`CheckpointFile`, `PartitionMetadataFile`.
"""

from __future__ import annotations

import enum
import stat
from collections.abc import Iterable

from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.file_access import stat_path
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError


class NotAFile(enum.Enum):
    """The kinds of entries that are not files."""

    DIRECTORY = "is a directory"
    PIPE = "is a pipe, socket or device"
    DANGLING_LINK = "links to a file that does not exist"
    LOOP = "is a link that cannot be followed"

    @property
    def exists(self) -> bool:
        """Whether Java's `File.exists` finds it."""
        return self in (NotAFile.DIRECTORY, NotAFile.PIPE)


class Access(enum.Enum):
    """Why a start opens a file."""

    OPEN = "to read and write it, where it is created if it is missing"
    OPEN_EXISTING = "the same, but only if it exists"
    WRITE = "to write it"
    READ = "to read it after it was created if it was missing"
    READ_EXISTING = "to read it if it exists"
    READ_OR_MISS = "to read it, where a missing one is an expected error"


class FileAccessError(StartError):
    """A file cannot be opened: an `IOException`, which takes the log directory offline."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_offline=True)


# Every other entry is like a missing file, or the target of the link is created.
_FAILING_ACCESSES = {
    NotAFile.DIRECTORY: frozenset(Access),
    NotAFile.PIPE: frozenset({Access.OPEN, Access.OPEN_EXISTING}),
    NotAFile.DANGLING_LINK: frozenset({Access.READ}),
    NotAFile.LOOP: frozenset({Access.OPEN, Access.WRITE, Access.READ, Access.READ_OR_MISS}),
}


def find_not_a_file(directory: DirectoryListing, name: str) -> NotAFile | None:
    """The kind of the entry with a name if it is not a file; None for a file or a missing entry."""
    if name in directory.directories:
        return NotAFile.DIRECTORY
    if name in directory.special_files:
        return NotAFile.PIPE
    if name not in directory.linked_files:
        return None
    try:
        mode = stat_path(directory.input_file(name).path).st_mode
    except FileNotFoundError:
        return NotAFile.DANGLING_LINK
    except (OSError, InputError):
        return NotAFile.LOOP
    return None if stat.S_ISREG(mode) else NotAFile.PIPE


def has_entry(directory: DirectoryListing, name: str) -> bool:
    """Whether Java's `File.exists` finds a name."""
    not_a_file = find_not_a_file(directory, name)
    return name in directory.files if not_a_file is None else not_a_file.exists


def start_file_names(directory: DirectoryListing) -> tuple[str, ...]:
    """The names of the files that a start lists."""
    return tuple(name for name in directory.files if find_not_a_file(directory, name) is None)


def check_access(directory: DirectoryListing, name: str, access: Access) -> None:
    """Check that a start can open a file, or that the file does not exist; raises FileAccessError,
    or StartError if the start would wait."""
    not_a_file = find_not_a_file(directory, name)
    if not_a_file is None:
        return
    message = f"{directory.input_file(name).name}: {not_a_file.value}, not a file"
    if access in _FAILING_ACCESSES[not_a_file]:
        raise FileAccessError(message)
    if not_a_file is NotAFile.PIPE:
        raise StartError(f"{message}; the start waits until another program opens it")


def find_start_files(
    directory: DirectoryListing,
    names: Iterable[str],
    access: Access,
    problems: list[tuple[str, StartError]],
) -> list[InputFile]:
    """The files that a start opens, without those that it does not find; adds those that it cannot
    open to `problems`, with the error."""
    files = []
    for name in sorted(names):
        try:
            check_access(directory, name, access)
        except StartError as error:
            problems.append((directory.input_file(name).name, error))
        else:
            if name in directory.files and find_not_a_file(directory, name) is None:
                files.append(directory.input_file(name))
    return files
