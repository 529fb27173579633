"""Checkpoint files as a starting broker reads them, up to the first error.

Source: `org.apache.kafka.server.common.CheckpointFile`, whose `IOException` takes the log directory
offline, and its line formatters, whose `NumberFormatException` does not.
"""

from __future__ import annotations

import re

from kfmt_cli.disk.kinds.checkpoint import MAX_CHECKPOINT_BYTES
from kfmt_cli.disk.kinds.kind import InputFile, quote_content, read_small_file

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
# Bits of each number in a line, 0 for text.
EPOCH_COLUMN_BITS, OFFSET_COLUMN_BITS = (32, 64), (0, 32, 64)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_WHITESPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_NUMBER = re.compile(r"[+-]?[0-9]+\Z")


class CheckpointError(Exception):
    """An error that takes the log directory offline."""


class NumberError(Exception):
    """A malformed number in a line; the reader of the file decides on its effect."""


def read_checkpoint_entries(file: InputFile, column_bits: tuple[int, ...]) -> list[list[int | str]]:
    """The entries of a checkpoint; raises CheckpointError, NumberError, InputError."""
    data = read_small_file(file, MAX_CHECKPOINT_BYTES)
    try:
        lines = _LINE_BREAK.split(data.decode())
    except UnicodeDecodeError:
        raise CheckpointError(f"{file.name}: not valid UTF-8") from None
    if not lines[-1]:
        lines.pop()
    if not lines:
        return []
    if _parse_int32(file, lines[0]) != 0:
        raise CheckpointError(f"{file.name}: version {lines[0]}; only 0 is supported")
    if len(lines) == 1:
        return []
    n_declared = _parse_int32(file, lines[1])
    entries = []
    for line in lines[2:]:
        values = _WHITESPACE.split(line)
        while values and not values[-1]:
            values.pop()
        if len(values) != len(column_bits):
            raise CheckpointError(f"{file.name}: malformed line: {quote_content(line)}")
        pairs = zip(values, column_bits, strict=True)
        entries.append([_parse_int(file, value, bits) if bits else value for value, bits in pairs])
    if len(entries) != n_declared:
        message = f"{n_declared} entries declared, {len(entries)} found"
        raise CheckpointError(f"{file.name}: {message}")
    return entries


def _parse_int32(file: InputFile, text: str) -> int:
    try:
        return _parse_int(file, text, 32)
    except NumberError as error:
        raise CheckpointError(f"{file.name}: malformed line: {quote_content(text)}") from error


def _parse_int(file: InputFile, text: str, bits: int) -> int:
    number = int(text) if _NUMBER.match(text) else None
    if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise NumberError(f"{file.name}: {quote_content(text)} is not a number")
    return number


def read_epoch_entries(file: InputFile) -> list[tuple[int, int]]:
    """The epochs of a leader-epoch-checkpoint, each with its start offset.

    Raises CheckpointError, NumberError, InputError.
    """
    return [
        (int(epoch), int(start))
        for epoch, start in read_checkpoint_entries(file, EPOCH_COLUMN_BITS)
    ]


def read_valid_epochs(file: InputFile) -> list[tuple[int, int]]:
    """The same epochs; a negative number, with which no broker starts, raises NumberError."""
    rows = read_epoch_entries(file)
    if any(number < 0 for row in rows for number in row):
        raise NumberError(f"{file.name}: negative epoch or offset")
    return rows


def read_checkpoint_offsets(file: InputFile) -> dict[tuple[str, int], int]:
    """The offset of each partition in a log directory's checkpoint.

    Raises CheckpointError, NumberError, InputError.
    """
    rows = read_checkpoint_entries(file, OFFSET_COLUMN_BITS)
    return {(str(topic), int(partition)): int(offset) for topic, partition, offset in rows}
