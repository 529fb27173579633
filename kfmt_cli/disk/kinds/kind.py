"""The kinds of files, the input files, and the contents that readers return."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.lazy import load
from kfmt_cli.disk.kinds.foreign import START, foreign_words
from kfmt_cli.disk.opening import open_source
from kfmt_cli.errors import ForeignError
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.section import Section

if TYPE_CHECKING:
    from kfmt_cli.disk.kinds.properties import PropertiesReader

# The suffixes that a broker appends to leftover and unfinished files; a .part also has a random
# number in its name.
TRANSIENT = ("deleted", "cleaned", "swap", "part", "tmp")
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
LEFT_BEHIND = (DELETED, CLEANED)  # leftover files


class Level(enum.Enum):
    """The part of a broker's disk that a file belongs to."""

    SEGMENT = "segment"
    PARTITION = "partition"
    LOG_DIRECTORY = "log directory"


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of file."""

    name: str
    """The name of the kind in JSON."""
    level: Level
    """The level that such a file belongs to."""
    suffix: str = ""
    """The suffix of such names, before any suffix of a leftover file."""
    names: frozenset[str] = frozenset()
    """The names of such files."""
    pattern: re.Pattern[str] | None = None
    """The pattern of such names."""
    pattern_words: tuple[str, ...] = ()
    """The pattern, for people."""
    row_types: tuple[RowType, ...] = ()
    """The types of its rows."""
    layouts: tuple[Layout, ...] = ()
    """The structures in it."""
    codes: tuple[Code, ...] = ()
    """The faults that its reader can find."""
    read: Callable[[Input], Contents] | None = None
    """Reads such a file. None for files of batches, which `log/reader.py` reads, and for files that
    are not read."""
    holds_batches: bool = False
    """Whether it is a sequence of record batches."""

    @property
    def words(self) -> str:
        """The kind with its article, for messages."""
        name = self.name.replace("_", " ")
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"

    @property
    def title(self) -> str:
        """The kind as a heading."""
        return self.name.replace("_", " ").capitalize()

    @property
    def named(self) -> list[str]:
        """The names of such files, for people."""
        suffixes = [f"*{self.suffix}"] if self.suffix else []
        return [*self.pattern_words, *suffixes, *sorted(self.names)]

    def is_named(self, file: str) -> bool:
        """Whether a name without its directory is of this kind."""
        if self.pattern is not None and self.pattern.match(file):
            return True
        return file in self.names or (self.suffix != "" and file.endswith(self.suffix))


class LazyKind(Kind):
    """A file of names and values, which has only one name; its reader is imported on first use."""

    def __init__(self, name: str, level: Level, file: str) -> None:
        vars(self).update(name=name, level=level, names=frozenset({file}))

    @property
    def read(self) -> PropertiesReader:
        """The reader of such a file."""
        found: PropertiesReader = load(f"kfmt_cli.disk.kinds.properties:{self.name.upper()}")
        return found

    @property
    def row_types(self) -> tuple[RowType, ...]:
        """The type of its row."""
        return (self.read.rows,)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The structure in it."""
        return (self.read.layout,)

    @property
    def codes(self) -> tuple[Code, ...]:
        """The faults that its reader can find."""
        return (self.read.malformed,)


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read."""

    path: str
    """The path that opens it."""
    name: str
    """Its name for display."""
    kind: Kind
    base_offset: int | None = None
    """The offset in a segment's name."""
    may_be_link: bool = True
    """Whether it may be a symbolic link."""
    stored_as: str = ""
    """Its name in its directory if it is compressed as a whole."""

    @property
    def stored_path(self) -> str:
        """The path under which it is stored."""
        if not self.stored_as:
            return self.path
        return f"{self.path.rpartition('/')[0]}/{self.stored_as}"

    @property
    def base(self) -> int:
        """The base offset; 0 for a file without one."""
        return self.base_offset or 0

    def contents(self) -> Contents:
        """The contents of a file whose kind has a reader; raises InputError."""
        assert self.kind.read is not None
        return self.kind.read(self)

    @property
    def named_by_kafka(self) -> bool:
        """Whether the name is one that brokers give logs and snapshots."""
        of_snapshot = self.kind.holds_batches and self.kind.suffix == ""
        return self.base_offset is not None or of_snapshot


@dataclass(slots=True)
class Contents:
    """The contents of a file that is not a log."""

    size: int
    """Its size in bytes."""
    sections: list[Section] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    padding: int = 0
    """Zero bytes after the rows."""

    @property
    def table(self) -> Any:
        """The rows of the first section."""
        return self.sections[0].table


PIECE = 1 << 20
MOST_QUOTED = 60  # characters


def quoted(text: str) -> str:
    """Content of a text file in a message: short, and zero bytes counted."""
    if len(text) > 1 and not text.strip("\0"):
        return f"{len(text)} zero bytes"
    return repr(text) if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]!r}…"


def read_whole(file: Input, most: int) -> bytes:
    """All bytes of a small file; raises InputError, ForeignError if it is not of its kind.

    most: the largest possible size of such a file.
    """
    data, size = read_filled(file, most)
    return data + bytes(size - len(data))


def read_filled(file: Input, most: int) -> tuple[bytes, int]:
    """The bytes of a file up to the hole at its end, and the size including the hole: a
    preallocated index ends in a hole, which would be read as zeros. Otherwise like `read_whole`."""
    with closing(open_source(file.path, file.name)) as source:
        if source.size is None or source.size > most:
            raise ForeignError(f"{file.name}: too large for {file.kind.words}")
        pieces = []
        at = 0
        end = source.end_of_data()
        while at < end and (piece := source.block(at, min(PIECE, end - at), 1)):
            pieces.append(piece)
            at += len(piece)
        # A file may have grown, and one that reports no bytes may have some (/proc).
        while end >= source.size and (piece := source.block(at, PIECE, 1)):
            pieces.append(piece)
            at += len(piece)
        size = max(at, source.size) if end < source.size else at
    data = b"".join(pieces)
    if foreign := foreign_words(data[:START]):
        raise ForeignError(f"{file.name}: not {file.kind.words} but {foreign}")
    return data, size
