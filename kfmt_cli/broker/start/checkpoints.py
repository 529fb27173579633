"""Checkpoint files as a starting broker reads them, up to the first error.

Source: `org.apache.kafka.server.common.CheckpointFile`, whose `IOException` takes the log directory
offline, and its line formatters, whose `NumberFormatException` does not.
"""

from __future__ import annotations

import re

from kfmt_cli.disk.kinds.checkpoint import MOST_BYTES
from kfmt_cli.disk.kinds.kind import Input, quoted, read_whole

LEADER_EPOCHS = "leader-epoch-checkpoint"
# Bits of each number in a line, 0 for text.
EPOCH_TYPES, OFFSET_TYPES = (32, 64), (0, 32, 64)
_LINE = re.compile(r"\r\n|\r|\n")
_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_NUMBER = re.compile(r"[+-]?[0-9]+\Z")


class CheckpointError(Exception):
    """An error that takes the log directory offline."""


class NumberError(Exception):
    """A malformed number in a line; the reader of the file decides on its effect."""


def entries_of(file: Input, types: tuple[int, ...]) -> list[list[int | str]]:
    """The entries of a checkpoint; raises CheckpointError, NumberError, InputError."""
    data = read_whole(file, MOST_BYTES)
    try:
        lines = _LINE.split(data.decode())
    except UnicodeDecodeError:
        raise CheckpointError(f"{file.name}: not valid UTF-8") from None
    if not lines[-1]:
        lines.pop()
    if not lines:
        return []
    if _whole(file, lines[0]) != 0:
        raise CheckpointError(f"{file.name}: version {lines[0]}; only 0 is supported")
    if len(lines) == 1:
        return []
    declared = _whole(file, lines[1])
    found = []
    for line in lines[2:]:
        words = _SPACE.split(line)
        while words and not words[-1]:
            words.pop()
        if len(words) != len(types):
            raise CheckpointError(f"{file.name}: malformed line: {quoted(line)}")
        pairs = zip(words, types, strict=True)
        found.append([_number(file, word, bits) if bits else word for word, bits in pairs])
    if len(found) != declared:
        words_ = f"{declared} entries declared, {len(found)} found"
        raise CheckpointError(f"{file.name}: {words_}")
    return found


def _whole(file: Input, text: str) -> int:
    try:
        return _number(file, text, 32)
    except NumberError as error:
        raise CheckpointError(f"{file.name}: malformed line: {quoted(text)}") from error


def _number(file: Input, text: str, bits: int) -> int:
    number = int(text) if _NUMBER.match(text) else None
    if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise NumberError(f"{file.name}: {quoted(text)} is not a number")
    return number


def stored_epochs(file: Input) -> list[tuple[int, int]]:
    """The epochs of a leader-epoch-checkpoint, each with its start offset.

    Raises CheckpointError, NumberError, InputError.
    """
    return [(int(epoch), int(start)) for epoch, start in entries_of(file, EPOCH_TYPES)]


def epochs_of(file: Input) -> list[tuple[int, int]]:
    """The same; raises NumberError also for a negative number, with which no broker starts."""
    rows = stored_epochs(file)
    if any(number < 0 for row in rows for number in row):
        raise NumberError(f"{file.name}: negative epoch or offset")
    return rows


def offsets_of(file: Input) -> dict[tuple[str, int], int]:
    """The offset of each partition in a log directory's checkpoint.

    Raises CheckpointError, NumberError, InputError.
    """
    rows = entries_of(file, OFFSET_TYPES)
    return {(str(topic), int(partition)): int(offset) for topic, partition, offset in rows}
