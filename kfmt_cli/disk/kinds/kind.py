"""The kinds of files, the input files, and the contents that readers return."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.lazy import import_object
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.foreign import MAX_SIGNATURE_BYTES, describe_foreign_file
from kfmt_cli.errors import WrongFileKindError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.columnar_rows import ColumnarRows

if TYPE_CHECKING:
    from kfmt_cli.disk.kinds.properties import PropertiesReader

# The suffixes that a broker appends to leftover and unfinished files; a .part also has a random
# number in its name.
TRANSIENT_SUFFIXES = ("deleted", "cleaned", "swap", "part", "tmp")
DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX = ".deleted", ".cleaned", ".swap"
LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX)


class FileLevel(enum.Enum):
    """The part of a broker's disk that a file belongs to."""

    SEGMENT = "segment"
    PARTITION = "partition"
    LOG_DIRECTORY = "log directory"


@dataclass(frozen=True, eq=False)
class FileKind:
    """A kind of file."""

    name: str
    """The name of the kind in JSON."""
    level: FileLevel
    """The level that such a file belongs to."""
    suffix: str = ""
    """The suffix of such names, before any suffix of a leftover file."""
    names: frozenset[str] = frozenset()
    """The names of such files."""
    pattern: re.Pattern[str] | None = None
    """The pattern of such names."""
    pattern_labels: tuple[str, ...] = ()
    """The pattern, for people."""
    row_types: tuple[RowType, ...] = ()
    """The types of its rows."""
    layouts: tuple[Layout, ...] = ()
    """The structures in such a file."""
    reader: Callable[[InputFile], FileContents] | None = None
    """Reads such a file. None for files of batches, which `log/reader.py` reads, and for files that
    are not read."""
    has_batches: bool = False
    """Whether such a file is a sequence of record batches."""

    @property
    def description(self) -> str:
        """The kind with its article, for messages."""
        spaced_name = self.name.replace("_", " ")
        return f"{'an' if spaced_name[0] in 'aeiou' else 'a'} {spaced_name}"

    @property
    def title(self) -> str:
        """The kind as a heading."""
        return self.name.replace("_", " ").capitalize()

    @property
    def name_patterns(self) -> list[str]:
        """The names of such files, for people."""
        suffixes = [f"*{self.suffix}"] if self.suffix else []
        return [*self.pattern_labels, *suffixes, *sorted(self.names)]

    def matches_name(self, file_name: str) -> bool:
        """Whether a name without its directory is of this kind."""
        if self.pattern is not None and self.pattern.match(file_name):
            return True
        return file_name in self.names or (self.suffix != "" and file_name.endswith(self.suffix))


class LazyFileKind(FileKind):
    """A file of names and values with a fixed name; its reader is imported on first use."""

    def __init__(self, name: str, level: FileLevel, file_name: str) -> None:
        vars(self).update(name=name, level=level, names=frozenset({file_name}))

    @property
    def reader(self) -> PropertiesReader:
        """The reader of such a file."""
        reader: PropertiesReader = import_object(
            f"kfmt_cli.disk.kinds.properties:{self.name.upper()}"
        )
        return reader

    @property
    def row_types(self) -> tuple[RowType, ...]:
        """The type of its row."""
        return (self.reader.row_type,)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The structure of such a file."""
        return (self.reader.layout,)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read."""

    path: str
    """The path that opens it."""
    name: str
    """Its name for display."""
    kind: FileKind
    base_offset: int | None = None
    """The offset in a segment's name."""
    may_be_link: bool = True
    """Whether it may be a symbolic link."""
    stored_name: str = ""
    """Its name in its directory if it is compressed as a whole."""

    @property
    def stored_path(self) -> str:
        """The path under which it is stored."""
        if not self.stored_name:
            return self.path
        return f"{self.path.rpartition('/')[0]}/{self.stored_name}"

    @property
    def base_offset_or_zero(self) -> int:
        """The base offset; 0 for a file without one."""
        return self.base_offset or 0

    def read_contents(self) -> FileContents:
        """The contents of a file whose kind has a reader; raises InputError."""
        assert self.kind.reader is not None
        return self.kind.reader(self)

    @property
    def has_broker_name(self) -> bool:
        """Whether the name is one that brokers give logs and snapshots."""
        is_kraft_snapshot = self.kind.has_batches and self.kind.suffix == ""
        return self.base_offset is not None or is_kraft_snapshot


@dataclass(slots=True)
class FileContents:
    """The contents of a file that is not a log."""

    size: int
    """Its size in bytes."""
    sections: list[ColumnarRows] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    padding_bytes: int = 0
    """Zero bytes after the rows."""

    @property
    def table(self) -> Any:
        """The rows of the first section."""
        return self.sections[0].table


READ_CHUNK_BYTES = 1 << 20
MAX_QUOTED_CHARS = 60


def quote_content(content_text: str) -> str:
    """The content of a text file for a message: shortened, and zero bytes only counted."""
    if len(content_text) > 1 and not content_text.strip("\0"):
        return f"{len(content_text)} zero bytes"
    return (
        repr(content_text)
        if len(content_text) <= MAX_QUOTED_CHARS
        else f"{content_text[:MAX_QUOTED_CHARS]!r}…"
    )


def read_small_file(file: InputFile, max_bytes: int) -> bytes:
    """All bytes of a small file; raises InputError, WrongFileKindError if it is not of its kind.

    max_bytes: the largest possible size of such a file.
    """
    stored_bytes, size = read_without_padding(file, max_bytes)
    return stored_bytes + bytes(size - len(stored_bytes))


def read_without_padding(file: InputFile, max_bytes: int) -> tuple[bytes, int]:
    """The bytes of a file up to the hole at its end, and the size including the hole: a
    preallocated index ends in a hole, which would be read as zeros. Otherwise like
    `read_small_file`."""
    with closing(open_source(file.path, file.name)) as source:
        if source.size is None or source.size > max_bytes:
            raise WrongFileKindError(f"{file.name}: too large for {file.kind.description}")
        chunks = []
        position = 0
        data_end = source.written_data_end()
        while position < data_end and (
            chunk := source.read_block(position, min(READ_CHUNK_BYTES, data_end - position), 1)
        ):
            chunks.append(chunk)
            position += len(chunk)
        # A file may have grown, and one that reports no bytes may have some (/proc).
        while data_end >= source.size and (
            chunk := source.read_block(position, READ_CHUNK_BYTES, 1)
        ):
            chunks.append(chunk)
            position += len(chunk)
        size = max(position, source.size) if data_end < source.size else position
    file_bytes = b"".join(chunks)
    if foreign_description := describe_foreign_file(file_bytes[:MAX_SIGNATURE_BYTES]):
        raise WrongFileKindError(
            f"{file.name}: not {file.kind.description} but {foreign_description}"
        )
    return file_bytes, size
