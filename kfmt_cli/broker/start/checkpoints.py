"""A broker's own files: their names, and checkpoints as a starting broker reads them.

A checkpoint is read up to the first error.

Source: `org.apache.kafka.server.common.CheckpointFile`, whose `IOException` takes the log directory
offline, and its line formatters, whose `NumberFormatException` does not; `kafka.log.LogManager`,
`org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kfmt_cli.core.integers import parse_java_int
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds import CLEAN_SHUTDOWN_KIND, META_PROPERTIES_KIND
from kfmt_cli.disk.kinds.checkpoint import MAX_CHECKPOINT_BYTES, split_checkpoint_line
from kfmt_cli.disk.kinds.kind import InputFile, quote_content, read_small_file
from kfmt_cli.topics import CLUSTER_METADATA

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
METADATA_LOG_NAME = f"{CLUSTER_METADATA}-0"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
LOG_DIRECTORY_FILES = frozenset(
    {RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT}
    | META_PROPERTIES_KIND.names
    | CLEAN_SHUTDOWN_KIND.names
)
# Directories that a broker skips or deletes.
IGNORED_DIRECTORIES = frozenset({"remote-log-index-cache"} | CLEAN_SHUTDOWN_KIND.names)
# Bits of each number in a line, 0 for text.
EPOCH_COLUMN_BITS, OFFSET_COLUMN_BITS = (32, 64), (0, 32, 64)
_LINE_BREAK_PATTERN = re.compile(r"\r\n|\r|\n")


class CheckpointError(Exception):
    """An error that takes the log directory offline."""


class CheckpointNumberError(Exception):
    """A malformed number in a line; the reader of the file decides on its effect."""


def read_checkpoint_entries(file: InputFile, column_bits: tuple[int, ...]) -> list[list[int | str]]:
    """The entries of a checkpoint; raises CheckpointError, CheckpointNumberError, InputError."""
    file_bytes = read_small_file(file, MAX_CHECKPOINT_BYTES)
    try:
        lines = _LINE_BREAK_PATTERN.split(file_bytes.decode())
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
    n_declared_entries = _parse_int32(file, lines[1])
    entries = []
    for line in lines[2:]:
        field_texts = split_checkpoint_line(line)
        if len(field_texts) != len(column_bits):
            raise CheckpointError(f"{file.name}: malformed line: {quote_content(line)}")
        texts_and_bits = zip(field_texts, column_bits, strict=True)
        entries.append(
            [
                _parse_int(file, field_text, n_bits) if n_bits else field_text
                for field_text, n_bits in texts_and_bits
            ]
        )
    if len(entries) != n_declared_entries:
        count_problem = f"{n_declared_entries} entries declared, {len(entries)} found"
        raise CheckpointError(f"{file.name}: {count_problem}")
    return entries


def _parse_int32(file: InputFile, line: str) -> int:
    try:
        return _parse_int(file, line, 32)
    except CheckpointNumberError as error:
        raise CheckpointError(f"{file.name}: malformed line: {quote_content(line)}") from error


def _parse_int(file: InputFile, number_text: str, n_bits: int) -> int:
    number = parse_java_int(number_text, n_bits)
    if number is None:
        raise CheckpointNumberError(f"{file.name}: {quote_content(number_text)} is not a number")
    return number


def read_epoch_entries(file: InputFile) -> list[tuple[int, int]]:
    """The epochs of a leader-epoch-checkpoint, each with its start offset.

    Raises CheckpointError, CheckpointNumberError, InputError.
    """
    return [
        (int(epoch), int(start_offset))
        for epoch, start_offset in read_checkpoint_entries(file, EPOCH_COLUMN_BITS)
    ]


def read_valid_epoch_entries(file: InputFile) -> list[tuple[int, int]]:
    """As `read_epoch_entries`, but a negative number, with which no broker starts, raises
    CheckpointNumberError."""
    epoch_entries = read_epoch_entries(file)
    if any(number < 0 for epoch_entry in epoch_entries for number in epoch_entry):
        raise CheckpointNumberError(f"{file.name}: negative epoch or offset")
    return epoch_entries


def read_checkpoint_offsets(file: InputFile) -> dict[tuple[str, int], int]:
    """The offset of each partition in a log directory's checkpoint.

    Raises CheckpointError, CheckpointNumberError, InputError.
    """
    entries = read_checkpoint_entries(file, OFFSET_COLUMN_BITS)
    return {(str(topic), int(partition)): int(offset) for topic, partition, offset in entries}


def is_log_directory(directory: DirectoryListing) -> bool:
    """Whether a directory has files that brokers write into their log directories, and none of a
    segment: Kafka reads these files in their place only, and ignores them in a partition."""
    return directory.accepts_any_log and (
        not LOG_DIRECTORY_FILES.isdisjoint(directory.files)
        or METADATA_LOG_NAME in directory.directories
    )


def names_in_place(directory: DirectoryListing) -> Iterator[str]:
    """The names of a directory's files, without those that Kafka ignores in a partition."""
    for name in directory.regular_files:
        if directory.accepts_any_log or name not in LOG_DIRECTORY_FILES:
            yield name
