"""Search in a log's keys and values, directly in the file if no batch is compressed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from kfmt_cli.browse.batch_positions import Anchor, Outline
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.source import Source
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.selection.expression import Expression, expression
from kfmt_cli.log.selection.record_match import Match
from kfmt_cli.log.selection.select import Selection

TEXT, REGEX, HEX = "text", "regex", "hex"
BOTH, KEY, VALUE = "key and value", "key", "value"
MOST_HITS = 10_000


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
    """A search of one log, starting at a byte. It runs on its own thread."""

    outline: Outline
    sought: SoughtText
    start: int = 0
    stop: Callable[[], bool] = lambda: False
    limit: Limit | None = None
    done: int = 0
    """Bytes searched."""
    end: int | None = None
    """The first byte whose batch is not searched; None for the end of the log."""

    def hits(self) -> Iterator[Hit]:
        """The matching records, in order; raises InputError, UsageError."""
        pattern, literal = self.sought.pattern, self.sought.literal
        matches = {KEY: Match(key=pattern), VALUE: Match(value=pattern)}
        wanted = [Selection(match=matches[field]) for field in self.sought.fields]
        with closing(self.outline.source()) as source:
            for anchor in self._anchors():
                if self.stop():
                    return
                if not anchor.is_plain or literal is None or _occurs(source, anchor, literal):
                    yield from self._in_block(anchor, wanted, literal)
                self.done += anchor.end - max(anchor.state.position, self.start)

    def _anchors(self) -> Iterator[Anchor]:
        """The blocks from the start onward; outlines the log further as needed."""
        outline, i = self.outline, 0
        while not self.stop():
            if i < len(outline.anchors):
                anchor = outline.anchors[i]
                i += 1
                if self.end is not None and anchor.state.position >= self.end:
                    return
                if anchor.end > self.start:
                    yield anchor
            elif outline.is_whole:
                if outline.trouble:
                    raise InputError(outline.trouble)
                return
            else:
                outline.grow(until=outline.end + 1, stop=self.stop)

    def _in_block(
        self, anchor: Anchor, wanted: list[Selection], literal: bytes | None
    ) -> Iterator[Hit]:
        block = self.outline.block(anchor)
        later = block.batches.position >= self.start
        if self.end is not None:
            later &= block.batches.position < self.end
        block.batches = block.batches.select(np.flatnonzero(later & (block.batches.control == 0)))
        if anchor.is_plain and literal:
            block = _near(block, literal)
        for run, records in wanted[0].near(block, self.limit or Limit()):
            owners = records.owner
            found = np.logical_or.reduce([one.of_records(run, records) for one in wanted])
            for row in np.flatnonzero(found).tolist():
                position = int(run.batches.position[owners[row]])
                yield Hit(position, int(records.rows.offset[row]), self.outline.file.name)


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
