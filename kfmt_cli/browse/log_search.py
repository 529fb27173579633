"""Search in the keys and values of a partition, directly in the file if no batch is compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from kfmt_cli.browse.batch_positions import Anchor, Outline
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.selection.expression import Expression, expression
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.log.selection.select import Selection

TEXT, REGEX, HEX = "text", "regex", "hex"
BOTH, KEY, VALUE = "key and value", "key", "value"
MOST_HITS = 10_000
NO_END = 1 << 62  # bytes


@dataclass(frozen=True, slots=True)
class SoughtText:
    """A search term."""

    words: str
    """The text as typed."""
    kind: str = TEXT
    """`TEXT`, `REGEX` or `HEX`."""
    field: str = BOTH
    """`BOTH`, `KEY` or `VALUE`."""

    @property
    def pattern(self) -> Expression:
        """The pattern to search the bytes for; raises UsageError."""
        try:
            if self.kind == REGEX:
                return expression(self.words)
            return Expression(re.escape(self.literal or b""))
        except ValueError as error:
            raise UsageError(f"{self.words!r} is not a regular expression: {error}") from None

    @property
    def literal(self) -> bytes | None:
        """The literal bytes, None for a regular expression; raises UsageError."""
        if self.kind == REGEX:
            return None
        if self.kind == HEX:
            try:
                return bytes.fromhex(self.words)
            except ValueError:
                raise UsageError(
                    f"{self.words!r} is not hexadecimal (two digits per byte)"
                ) from None
        return os.fsencode(self.words)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields to search: `KEY`, `VALUE`, or both."""
        return (KEY, VALUE) if self.field == BOTH else (self.field,)

    @property
    def options(self) -> list[tuple[str, str]]:
        """The equivalent `kfmt find` options and values, one per call; raises UsageError."""
        literal = self.literal or b""
        if self.kind == REGEX:
            said = self.words
        elif self.kind == HEX or not _is_plain(literal):
            said = "".join(f"\\x{byte:02x}" for byte in literal)
        else:
            said = re.escape(self.words)
        return [(f"--{field}", f"~{said}") for field in self.fields]


def _is_plain(literal: bytes) -> bool:
    try:
        return literal.decode().isprintable()
    except UnicodeDecodeError:
        return False


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching record."""

    batch_position: int
    offset: int
    file: str = ""
    """The name of the log."""


@dataclass(slots=True)
class Hunt:
    """A search of all logs of a partition: from a batch of the open log onward, through the later
    logs, then from the first log to the starting point. It runs on its own thread."""

    logs: Sequence[Input]
    """In the order of their base offsets."""
    outline: Outline
    """The outline of the open log, which is one of `logs`."""
    sought: SoughtText
    start: int = 0
    """The byte of the open log at which the search starts."""
    stop: Callable[[], bool] = lambda: False
    limit: Limit | None = None
    number: int = 0
    """The index of the log being searched."""
    done: int = 0
    """Bytes searched."""
    total: int = 0
    """The size of all logs in bytes."""
    troubles: list[str] = field(default_factory=list)
    """Why some of the logs could not be read."""

    def __post_init__(self) -> None:
        self.total = sum(map(size_of, self.logs))

    def hits(self) -> Iterator[Hit]:
        """The matching records; raises UsageError."""
        first = next(
            (i for i, log in enumerate(self.logs) if log.path == self.outline.file.path), 0
        )
        yield from self._in(first, self.start, NO_END)
        for number in (*range(first + 1, len(self.logs)), *range(first)):
            yield from self._in(number, 0, NO_END)
        if self.start:
            yield from self._in(first, 0, self.start)

    def _in(self, number: int, start: int, end: int) -> Iterator[Hit]:
        """The hits in one log, from one byte up to another."""
        if self.stop():
            return
        self.number = number
        file = self.logs[number]
        try:
            is_open = file.path == self.outline.file.path
            outline = self.outline if is_open else Outline(file, self.outline.wanted)
            yield from self._in_outline(outline, start, end)
        except InputError as error:
            self.troubles.append(str(error))

    def _in_outline(self, outline: Outline, start: int, end: int) -> Iterator[Hit]:
        pattern, literal = self.sought.pattern, self.sought.literal
        matches = {KEY: Match(key=pattern), VALUE: Match(value=pattern)}
        wanted = [Selection(match=matches[name]) for name in self.sought.fields]
        with closing(outline.source()) as source:
            for anchor in self._anchors(outline, start, end):
                if self.stop():
                    return
                if not anchor.is_plain or literal is None or _occurs(source, anchor, literal):
                    block = outline.block(anchor)
                    batches = block.batches
                    inside = (batches.position >= start) & (batches.position < end)
                    block.batches = batches.select(np.flatnonzero(inside & (batches.control == 0)))
                    if anchor.is_plain and literal:
                        block = _near(block, literal)
                    yield from self._in_block(block, wanted, outline.file.name)
                self.done += anchor.end - max(anchor.state.position, start)

    def _anchors(self, outline: Outline, start: int, end: int) -> Iterator[Anchor]:
        """The blocks between two bytes; outlines the log further as needed."""
        i = 0
        while not self.stop():
            if i < len(outline.anchors):
                anchor = outline.anchors[i]
                i += 1
                if anchor.state.position >= end:
                    return
                if anchor.end > start:
                    yield anchor
            elif outline.is_whole:
                if outline.trouble:
                    raise InputError(outline.trouble)
                return
            else:
                outline.grow(until=outline.end + 1, stop=self.stop)

    def _in_block(self, block: Block, wanted: list[Selection], name: str) -> Iterator[Hit]:
        for run, records in wanted[0].near(block, self.limit or Limit()):
            owners = records.owner
            found = np.logical_or.reduce([one.of_records(run, records) for one in wanted])
            for row in np.flatnonzero(found).tolist():
                position = int(run.batches.position[owners[row]])
                yield Hit(position, int(records.rows.offset[row]), name)


def _occurs(source: Source, anchor: Anchor, literal: bytes) -> bool:
    """Whether the literal occurs anywhere in the bytes of an uncompressed block."""
    position = anchor.state.position
    length = anchor.end - position
    return literal in source.block(position, length, length)[:length]


def _near(block: Block, literal: bytes) -> Block:
    """The block with only the batches that contain the literal."""
    places: list[int] = []
    at = block.data.find(literal)
    while at >= 0 and len(places) < 2 * len(block.batches):
        places.append(at)
        at = block.data.find(literal, at + 1)
    if at >= 0:
        return block  # nearly everywhere
    batches = block.batches
    i = np.searchsorted(batches.start, np.array(places, np.int64), side="right") - 1
    held = np.unique(i[(i >= 0)])
    return replace(block, batches=batches.select(held), findings=[])
